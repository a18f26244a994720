// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;

class AttemptKeyTest {
  /** The plug-in for Tez makes the same of the same password. */
  @Test
  void theKeyOfAPassword() throws Exception {
    byte[] password = new byte[20];
    for (int i = 0; i < password.length; i++) {
      password[i] = (byte) i;
    }
    StringBuilder hex = new StringBuilder();
    for (byte each : ApplicationSection.key(password)) {
      hex.append(String.format("%02x", each));
    }
    assertEquals("d1999eeec1fa2fc261a10f046e7c735b1d0d0cb0a14705085030752e8d2d5f8a", hex.toString());
  }
}
