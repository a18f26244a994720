// SPDX-License-Identifier: Apache-2.0
/**
 * What applications require of nodes, {@code treadle:require=...}: the language, in which {@code
 * python/treadle/constraints} is written too, and the allocator that holds placements to it. Threads of the
 * ResourceManager call the allocator: it throws nothing and takes no lock.
 */
package io.treadle.shim.constraints;
