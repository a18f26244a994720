// SPDX-License-Identifier: Apache-2.0
/**
 * The thread of the connection to an engine, the lease that the engine holds, and Py4J; and the sources of engines: a
 * sidecar as a child process of the ResourceManager, an externally started one, or a class in this JVM.
 *
 * <p>For the link thread, except {@code Lease} and {@code Link.signal}, {@code Link.settings} and {@code Link.stop},
 * which are for any thread. The only thread that waits for Python holds no lock of the scheduler meanwhile. {@code
 * BoundedSocket} has a thread that closes it at a deadline.
 */
package io.treadle.shim.link;
