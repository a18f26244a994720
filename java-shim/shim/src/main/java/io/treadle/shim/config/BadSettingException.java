// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.config;

/**
 * A setting in yarn-site.xml that cannot be used. The message names the key, its value, what is allowed and what to do.
 */
public final class BadSettingException extends Exception {
  private static final long serialVersionUID = 1L;

  BadSettingException(String message) {
    super(message);
  }
}
