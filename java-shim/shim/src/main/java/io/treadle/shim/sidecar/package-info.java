// SPDX-License-Identifier: Apache-2.0
/**
 * Where engines come from: a sidecar as a child process of the ResourceManager, one that somebody else runs, or a
 * class in this JVM. The link thread's; a child's standard output and error have a daemon thread each. No lock of the
 * scheduler is taken.
 */
package io.treadle.shim.sidecar;
