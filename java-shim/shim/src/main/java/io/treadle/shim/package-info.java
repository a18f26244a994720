// SPDX-License-Identifier: Apache-2.0
/**
 * What belongs to one scheduler, put together, and what every other package may use.
 *
 * <p>{@link io.treadle.shim.Shim} is called by the overrides of TreadleScheduler, on threads of the ResourceManager
 * that may hold the scheduler's lock: it marks, counts or reads a clock, and takes no lock of the scheduler. Its own
 * monitor is for start, stop and refresh only. {@link io.treadle.shim.CommitPipeline} is the link thread's.
 */
package io.treadle.shim;
