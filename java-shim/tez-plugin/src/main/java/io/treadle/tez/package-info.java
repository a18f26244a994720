// SPDX-License-Identifier: Apache-2.0
/**
 * The plug-in in Tez application masters: it gives a DAG's tasks the priorities of a plan, and reports ended tasks.
 *
 * <p>Tez's dispatcher calls the scheduler, under the scheduler's own monitor, and never waits for the listener. A
 * daemon thread for each DAG talks to the listener and holds no monitor meanwhile; the clock's thread ends the wait for
 * a plan.
 */
package io.treadle.tez;
