// SPDX-License-Identifier: Apache-2.0
/**
 * Reads the CapacityScheduler's state and writes it into frames, a section of the scheduler a file; {@code Mirror}
 * decides which of them handle a change, and knows the last values sent.
 *
 * <p>{@link io.treadle.shim.mirror.Taps} run on threads of the RM after its own code and mark possible changes in the
 * {@link io.treadle.shim.mirror.Journal}, under the journal's lock, which is held for one insertion. They take no lock
 * of the scheduler. All else runs on the link thread: it takes only the locks that reading a queue, an application or a
 * node takes, for one read at a time.
 */
package io.treadle.shim.mirror;
