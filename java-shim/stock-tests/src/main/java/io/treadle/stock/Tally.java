// SPDX-License-Identifier: Apache-2.0
package io.treadle.stock;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import java.util.Map;

/**
 * Records the placements of each scheduler of a run, a line each: without it tests could pass without any work by
 * Treadle.
 */
public final class Tally {
  /** The system property that names the file. */
  private static final String FILE = "treadle.stock.tally";

  private Tally() {
  }

  /** Adds the numbers of one scheduler that ends, and its placements without an engine, by reason. */
  public static synchronized void add(Map<String, Long> numbers, Map<String, Integer> natives) {
    String file = System.getProperty(FILE, "");
    if (file.isEmpty()) {
      return;
    }
    Path path = Paths.get(file);
    StringBuilder lines = new StringBuilder();
    lines.append(numbers.get("Proposals")).append(' ').append(numbers.get("Committed")).append(' ')
        .append(numbers.get("Rejected")).append(' ').append(numbers.get("PlacedByCapacityScheduler")).append(' ')
        .append(numbers.get("CaughtExceptions")).append('\n');
    natives.forEach((reason, count) ->
        lines.append("native ").append(count).append(' ').append(reason).append('\n'));
    byte[] bytes = lines.toString().getBytes(StandardCharsets.UTF_8);
    try {
      Files.write(path, bytes, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
