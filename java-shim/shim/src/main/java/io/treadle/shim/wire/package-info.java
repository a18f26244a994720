// SPDX-License-Identifier: Apache-2.0
/**
 * The bytes of docs/wire-format.md: columns and sections of frames, answers, and the fates of proposals, without their
 * meaning. For the link thread; no locks.
 */
package io.treadle.shim.wire;
