// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.constraints;

import java.util.List;

/** A node as requirements see it. */
interface NodeFacts {
  /** How requirements name the partition of nodes without a label. */
  String DEFAULT_PARTITION = "default";

  /**
   * What the node has under a name in lower case: {@code rack}, {@code host}, {@code partition}, the total of a
   * resource type, else an attribute; without a prefix those of that name under any prefix.
   */
  List<String> values(String name);
}
