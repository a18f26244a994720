// SPDX-License-Identifier: Apache-2.0
/**
 * What class files refer to in Hadoop, written down while the shim is built, for its self-check at start-up. One
 * thread, Maven's; no locks. Not in the shim's jar.
 */
package io.treadle.references;
