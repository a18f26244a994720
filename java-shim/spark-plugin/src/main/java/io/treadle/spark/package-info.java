// SPDX-License-Identifier: Apache-2.0
/**
 * The plug-in in Spark drivers: it follows the progress of stages and reports it to the plan listener.
 *
 * <p>Events come on Spark's thread for listeners, which counts them under the monitor of the table of stages and never
 * waits. A daemon thread of the plug-in's own reports; it holds no monitor while it talks to the listener.
 */
package io.treadle.spark;
