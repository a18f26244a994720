// SPDX-License-Identifier: Apache-2.0
/**
 * What changed in the scheduler, written once for any number of mirrors.
 *
 * <p>{@link io.treadle.shim.journal.Taps} run on threads of the RM after its own code and mark what may have changed in
 * the {@link io.treadle.shim.journal.Journal}, under the journal's lock, which is held for one insertion. They take no
 * lock of the scheduler. A mirror takes {@link io.treadle.shim.journal.Changes} through a
 * {@link io.treadle.shim.journal.Feed} of its own, on its link's thread: that drains the journal into a batch, which
 * all other feeds find too. Batches have a lock that threads of the RM never take. What says how something is written
 * (names, indices, what was sent last, fates) belongs to the mirrors.
 */
package io.treadle.shim.journal;
