// SPDX-License-Identifier: Apache-2.0
package io.treadle.tez;

import io.treadle.plans.ListenerAddresses;
import java.net.InetSocketAddress;
import java.util.List;
import org.apache.hadoop.conf.Configuration;

/** What tez-site.xml says of Treadle. */
final class PlanSettings {
  /** {@code host:port} of the plan listener of each ResourceManager, separated by commas; without it, natural order. */
  static final String ADDRESSES = "treadle.plan.addresses";
  /** How long a DAG's first tasks may wait for its plan, milliseconds. */
  static final String WAIT_MS = "treadle.plan.wait-ms";

  /** Whether nothing is said to a listener that does not encrypt. */
  static final String ENCRYPT = "treadle.plan.encrypt";

  private static final long WAIT_MS_DEFAULT = 2_000;
  private static final long WAIT_MS_MAX = 60_000;

  private final List<InetSocketAddress> addresses;
  private final long waitMs;
  private final boolean encrypt;

  private PlanSettings(List<InetSocketAddress> addresses, long waitMs, boolean encrypt) {
    this.addresses = addresses;
    this.waitMs = waitMs;
    this.encrypt = encrypt;
  }

  /**
   * Reads the settings.
   *
   * @throws IllegalArgumentException if one cannot be used; the text names it and says what to write
   */
  static PlanSettings read(Configuration configuration) {
    List<InetSocketAddress> addresses = ListenerAddresses.read(ADDRESSES, configuration.get(ADDRESSES));
    long waitMs = configuration.getLong(WAIT_MS, WAIT_MS_DEFAULT);
    if (waitMs < 0 || waitMs > WAIT_MS_MAX) {
      throw new IllegalArgumentException(WAIT_MS + " is " + waitMs + "; write 0 to " + WAIT_MS_MAX);
    }
    return new PlanSettings(addresses, waitMs, ListenerAddresses.flag(ENCRYPT, configuration.get(ENCRYPT)));
  }

  /** Where plans are asked for, in this order. */
  List<InetSocketAddress> addresses() {
    return addresses;
  }

  /** Whether nothing is said to a listener that does not encrypt. */
  boolean encrypt() {
    return encrypt;
  }

  /** How long tasks may wait for a plan, milliseconds. */
  long waitMs() {
    return waitMs;
  }
}
