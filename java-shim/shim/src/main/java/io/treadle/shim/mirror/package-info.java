// SPDX-License-Identifier: Apache-2.0
/**
 * Reads the CapacityScheduler's state and writes it into frames, a section a file; {@code Sections} decides which of
 * them look at what changed. A mirror belongs to one engine: what was sent last, names and indices are its own.
 *
 * <p>The link thread's. It takes only the locks that reading a queue, an application or a node takes, for one read at
 * a time.
 */
package io.treadle.shim.mirror;
