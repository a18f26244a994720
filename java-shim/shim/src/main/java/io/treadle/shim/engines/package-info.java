/**
 * Several engines on one scheduler: the roster that the first engine says, and which engine serves an application now.
 *
 * <p>All is for any thread. Who serves what is one immutable object behind a volatile field; looking at it takes no
 * lock, and a lock of its own is taken only when an engine has died or come back. No lock of the scheduler is taken.
 */
package io.treadle.shim.engines;
