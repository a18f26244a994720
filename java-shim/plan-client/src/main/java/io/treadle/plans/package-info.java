// SPDX-License-Identifier: Apache-2.0
/**
 * What an application master says to a plan listener, and how: keys, bytes, encryption, which listener answers. Goes
 * into the jars of the plug-ins, and needs nothing but Hadoop's records and tokens.
 *
 * <p>A request to a listener waits for the answer, so a plug-in does that on a thread of its own; one connection object
 * belongs to one thread. A daemon thread, the clock, ends what takes too long. No locks.
 */
package io.treadle.plans;
