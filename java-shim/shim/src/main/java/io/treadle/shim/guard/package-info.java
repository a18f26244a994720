// SPDX-License-Identifier: Apache-2.0
/**
 * Takes the lease from an engine that answers and places nothing. The link thread's; threads that commit natively or
 * end containers report it under a monitor of its own, within which no lock of the scheduler is taken.
 */
package io.treadle.shim.guard;
