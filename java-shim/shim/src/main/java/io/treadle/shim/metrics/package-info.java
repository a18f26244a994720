// SPDX-License-Identifier: Apache-2.0
/**
 * What Treadle counts, and how metrics2 and JMX show it. Any thread counts, without a lock or under one held for one
 * addition; nothing here takes a lock of the scheduler.
 */
package io.treadle.shim.metrics;
