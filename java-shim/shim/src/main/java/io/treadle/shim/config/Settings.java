// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.config;

import java.util.Locale;
import org.apache.hadoop.conf.Configuration;

/** Reads single values of a Configuration and says what is wrong with one in words for an administrator. */
final class Settings {
  private static final String REMEDY = ". Correct it in yarn-site.xml, or remove it to use the default, ";

  private final Configuration conf;

  Settings(Configuration conf) {
    this.conf = conf;
  }

  String text(String key, String standard) {
    String value = conf.getTrimmed(key);
    return value == null || value.isEmpty() ? standard : value;
  }

  int number(String key, int standard, int least, int most) throws BadSettingException {
    return number(key, standard, least, most, null);
  }

  /** A whole number in [least, most]; {@code mostIs} explains the upper bound if it is no constant. */
  int number(String key, int standard, int least, int most, String mostIs) throws BadSettingException {
    String value = text(key, "");
    if (value.isEmpty()) {
      return standard;
    }
    try {
      long number = Long.parseLong(value);
      if (number >= least && number <= most) {
        return (int) number;
      }
    } catch (NumberFormatException e) {
      // said below, with what is allowed
    }
    throw new BadSettingException(key + " is '" + value + "'; allowed are whole numbers from " + least + " to " + most
        + (mostIs == null ? "" : " (" + mostIs + ")") + REMEDY + standard);
  }

  <E extends Enum<E>> E oneOf(String key, Class<E> type, E standard) throws BadSettingException {
    String value = text(key, "");
    StringBuilder allowed = new StringBuilder();
    for (E constant : type.getEnumConstants()) {
      String text = constant.name().toLowerCase(Locale.ROOT);
      if (value.equals(text)) {
        return constant;
      }
      allowed.append(allowed.length() == 0 ? "" : ", ").append(text);
    }
    if (value.isEmpty()) {
      return standard;
    }
    throw new BadSettingException(key + " is '" + value + "'; allowed are " + allowed + REMEDY
        + standard.name().toLowerCase(Locale.ROOT));
  }
}
