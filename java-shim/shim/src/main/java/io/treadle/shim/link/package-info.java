// SPDX-License-Identifier: Apache-2.0
/**
 * The thread that talks to one engine, the lease that the engine holds, and Py4J; and where engines come from: a
 * sidecar as a child process of the ResourceManager, one that somebody else runs, or a class in this JVM.
 *
 * <p>All is the link thread's but {@code Lease} and {@code Link.signal}, {@code Link.settings} and {@code Link.stop},
 * which are for any thread. The only thread that waits for Python holds no lock of the scheduler meanwhile.
 * {@code BoundedSocket} has a thread that closes it at a deadline.
 */
package io.treadle.shim.link;
