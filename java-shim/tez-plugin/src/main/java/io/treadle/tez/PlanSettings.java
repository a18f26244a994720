package io.treadle.tez;

import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.hadoop.conf.Configuration;

/** What tez-site.xml says of Treadle. */
final class PlanSettings {
  /** {@code host:port} of the plan listener of each ResourceManager, separated by commas; without it, natural order. */
  static final String ADDRESSES = "treadle.plan.addresses";
  /** How long a DAG's first tasks may wait for its plan, milliseconds. */
  static final String WAIT_MS = "treadle.plan.wait-ms";

  private static final long WAIT_MS_DEFAULT = 2_000;
  private static final long WAIT_MS_MAX = 60_000;
  private static final int ADDRESSES_MAX = 16;

  private final List<InetSocketAddress> addresses;
  private final long waitMs;

  private PlanSettings(List<InetSocketAddress> addresses, long waitMs) {
    this.addresses = addresses;
    this.waitMs = waitMs;
  }

  /**
   * Reads the settings.
   *
   * @throws IllegalArgumentException if one cannot be used; the text names it and says what to write
   */
  static PlanSettings read(Configuration configuration) {
    List<InetSocketAddress> addresses = new ArrayList<>();
    for (String text : configuration.getTrimmedStrings(ADDRESSES)) {
      if (!text.isEmpty()) {
        addresses.add(address(text));
      }
    }
    if (addresses.isEmpty()) {
      throw new IllegalArgumentException(ADDRESSES + " is not set in tez-site.xml; write host:port of the listener");
    }
    if (addresses.size() > ADDRESSES_MAX) {
      throw new IllegalArgumentException(ADDRESSES + " names more than " + ADDRESSES_MAX + " addresses");
    }
    long waitMs = configuration.getLong(WAIT_MS, WAIT_MS_DEFAULT);
    if (waitMs < 0 || waitMs > WAIT_MS_MAX) {
      throw new IllegalArgumentException(WAIT_MS + " is " + waitMs + "; write 0 to " + WAIT_MS_MAX);
    }
    return new PlanSettings(Collections.unmodifiableList(addresses), waitMs);
  }

  private static InetSocketAddress address(String text) {
    int colon = text.lastIndexOf(':');
    try {
      int port = Integer.parseInt(text.substring(colon + 1));
      if (colon > 0 && port > 0 && port < 1 << 16) {
        String host = text.substring(0, colon);
        boolean bracketed = host.startsWith("[") && host.endsWith("]");
        // Looked up when it is connected to: a name server may take its time.
        return InetSocketAddress.createUnresolved(bracketed ? host.substring(1, host.length() - 1) : host, port);
      }
    } catch (NumberFormatException notANumber) {
      throw badAddress(text, notANumber);
    }
    throw badAddress(text, null);
  }

  private static IllegalArgumentException badAddress(String text, Exception cause) {
    return new IllegalArgumentException(ADDRESSES + ": \"" + text + "\" is no host:port", cause);
  }

  /** Where plans are asked for, in this order. */
  List<InetSocketAddress> addresses() {
    return addresses;
  }

  /** How long tasks may wait for a plan, milliseconds. */
  long waitMs() {
    return waitMs;
  }
}
