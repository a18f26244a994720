// SPDX-License-Identifier: Apache-2.0
/**
 * Whether the shim fits the Hadoop that it runs in, found out once at start-up: every reference by the list that the
 * build writes, and the gate by a call that comes to it. The thread that starts the scheduler runs it; it takes no lock
 * of the scheduler.
 */
package io.treadle.shim.compat;
