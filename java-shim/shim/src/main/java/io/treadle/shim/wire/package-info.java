// SPDX-License-Identifier: Apache-2.0
/**
 * The bytes of docs/wire-format.md: columns and sections of frames, answers, and the fates of proposals. Knows nothing
 * of what they are about. The link thread's; no locks.
 */
package io.treadle.shim.wire;
