package io.treadle.shim.commit;

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

  /** Appends it as a JSON object. */
  void appendJson(StringBuilder json) {
    json.append("{\"agreed\":").append(agreed.sum()).append(",\"other_node\":").append(otherNode.sum())
        .append(",\"treadle_only\":").append(treadleOnly.sum()).append(",\"stock_only\":").append(stockOnly.sum())
        .append('}');
  }
}
