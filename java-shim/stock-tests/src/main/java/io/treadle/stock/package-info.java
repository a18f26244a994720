// SPDX-License-Identifier: Apache-2.0
/**
 * A Java agent that lets Hadoop's own tests of the CapacityScheduler run on TreadleScheduler, with defects planted
 * on demand. For tests only.
 *
 * <p>Its code runs on whatever thread of the ResourceManager it is woven into, and takes the monitor of a tally or a
 * queue without a lock; the engine is the link thread's.
 */
package io.treadle.stock;
