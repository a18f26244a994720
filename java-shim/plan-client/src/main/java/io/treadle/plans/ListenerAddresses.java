// SPDX-License-Identifier: Apache-2.0
package io.treadle.plans;

import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/** Where plan listeners are and how they are spoken to, as settings say. */
public final class ListenerAddresses {
  private static final int ADDRESSES_MAX = 16;

  private ListenerAddresses() {
  }

  /**
   * Reads {@code host:port} of the listener of each ResourceManager, separated by commas.
   *
   * @param setting the name of the setting
   * @param text its value; null if it is not set
   * @throws IllegalArgumentException if it is invalid; the text names it and the correct form
   */
  public static List<InetSocketAddress> read(String setting, String text) {
    List<InetSocketAddress> addresses = new ArrayList<>();
    for (String one : (text == null ? "" : text).split(",")) {
      if (!one.trim().isEmpty()) {
        addresses.add(address(setting, one.trim()));
      }
    }
    if (addresses.isEmpty()) {
      throw new IllegalArgumentException(setting + " is not set; write host:port of the listener");
    }
    if (addresses.size() > ADDRESSES_MAX) {
      throw new IllegalArgumentException(setting + " names more than " + ADDRESSES_MAX + " addresses");
    }
    return Collections.unmodifiableList(addresses);
  }

  /**
   * Reads whether something is to be done; not, unless it is set.
   *
   * @throws IllegalArgumentException if it is neither true nor false: what was meant to be encrypted must not go in
   *     clear
   */
  public static boolean flag(String setting, String text) {
    String value = text == null || text.trim().isEmpty() ? "false" : text.trim();
    if (!value.equalsIgnoreCase("true") && !value.equalsIgnoreCase("false")) {
      throw new IllegalArgumentException(setting + " is " + value + "; write true or false");
    }
    return Boolean.parseBoolean(value);
  }

  private static InetSocketAddress address(String setting, String text) {
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
      throw badAddress(setting, text, notANumber);
    }
    throw badAddress(setting, text, null);
  }

  private static IllegalArgumentException badAddress(String setting, String text, Exception cause) {
    return new IllegalArgumentException(setting + ": \"" + text + "\" is not a host:port", cause);
  }
}
