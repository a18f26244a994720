package io.treadle.stock;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import java.util.Map;

/** Notes what each scheduler of a run placed, a line each: without it tests could pass because nobody of ours worked. */
public final class Tally {
  /** The system property that names the file. */
  private static final String FILE = "treadle.stock.tally";

  private Tally() {
  }

  /** Adds the numbers of one scheduler that ends. */
  public static synchronized void add(Map<String, Long> numbers) {
    String file = System.getProperty(FILE, "");
    if (file.isEmpty()) {
      return;
    }
    Path path = Paths.get(file);
    String line = numbers.get("Proposals") + " " + numbers.get("Committed") + " " + numbers.get("Rejected") + " "
        + numbers.get("PlacedNatively") + " " + numbers.get("Escapes") + "\n";
    try {
      Files.write(path, line.getBytes(StandardCharsets.UTF_8), StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
