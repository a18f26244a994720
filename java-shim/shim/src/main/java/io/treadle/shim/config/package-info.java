// SPDX-License-Identifier: Apache-2.0
/**
 * The settings {@code yarn.scheduler.treadle.*} of yarn-site.xml, read and checked, each with what to do if it cannot
 * be used. Immutable values, for any thread; no locks.
 */
package io.treadle.shim.config;
