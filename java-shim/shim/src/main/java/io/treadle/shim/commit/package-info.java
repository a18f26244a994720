// SPDX-License-Identifier: Apache-2.0
/**
 * Handles proposals: checks, commits, the reasons of rejections; and the shim's own placements and computations while
 * an engine schedules (container updates, reservations, limits of leaves, headroom).
 *
 * <p>For the link thread, except {@code Headroom.correct} and {@code ContainerUpdates.mark} (threads of AMs), which do
 * not take the scheduler's lock. A batch of commits holds its write lock; judging proposals ({@code observe_only},
 * transactions) and searching for requests hold its read lock, for a batch or a few hundred steps at a time.
 *
 * <p>Locks are taken in one order: {@code Committer.asksOf} an attempt, the scheduler's, those of leaves and other
 * queues, those of applications. A thread that has a later one takes no earlier one; {@code LockOrderInRmTest} watches
 * that.
 */
package io.treadle.shim.commit;
