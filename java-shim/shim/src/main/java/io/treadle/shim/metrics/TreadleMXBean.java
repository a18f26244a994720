// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.metrics;

/**
 * The bean {@code Hadoop:service=ResourceManager,name=Treadle}. Each read of an attribute computes it, and no other.
 */
public interface TreadleMXBean {
  /** All numbers and texts now, by name, as a JSON object (docs/watch.md). */
  String getStatus();

  /** How many containers of the latest applications Treadle placed, and how many anyone else, as a JSON object. */
  String getPlacements();
}
