package io.treadle.shim.commit;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.concurrent.atomic.LongAdder;

/** How often the stock scheduler placed what Treadle would have placed, for one queue or framework. */
final class Agreement {
  /** Placed by stock on the node that Treadle proposed. */
  final LongAdder agreed = new LongAdder();
  /** Placed by stock on another node than any that Treadle proposed. */
  final LongAdder otherNode = new LongAdder();
  /** Proposed, and not placed by stock within the window. */
  final LongAdder treadleOnly = new LongAdder();
  /** Placed by stock, and not proposed within the window before. */
  final LongAdder stockOnly = new LongAdder();

  void write(ObjectNode json) {
    json.put("agreed", agreed.sum()).put("other_node", otherNode.sum()).put("treadle_only", treadleOnly.sum())
        .put("stock_only", stockOnly.sum());
  }
}
