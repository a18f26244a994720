// SPDX-License-Identifier: Apache-2.0
/**
 * What applications require of nodes, {@code treadle:require=...}: the language, in which {@code
 * python/treadle/constraints} is written too, and what keeps the stock scheduler to it. Everything here is called by
 * threads of the ResourceManager: nothing throws but {@link io.treadle.shim.constraints.Expression#parse}. Monitors
 * of its own are held for one look into a map; no lock of the scheduler is taken.
 */
package io.treadle.shim.constraints;
