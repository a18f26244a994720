// SPDX-License-Identifier: Apache-2.0
/**
 * Schedulers inside Hadoop's load simulator, SLS: Treadle and the stock CapacityScheduler, measured identically, and an
 * engine in the same JVM as the floor of the comparison.
 *
 * <p>Schedulers are called by SLS's and the ResourceManager's threads and only count: under no lock, or under one held
 * for one addition. A daemon thread samples and writes the file of measurements. The engine runs on the link thread. No
 * lock of the scheduler is taken that it does not take by itself.
 *
 * <p>A {@link io.treadle.sls.Script} is a load of its own: jobs of MapReduce and Tez, played by {@link
 * io.treadle.sls.ScriptedMaster} on SLS's threads.
 */
package io.treadle.sls;
