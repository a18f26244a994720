// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

class JsonTest {
  /** A sidecar could send other names again and again, of 64 KiB each. */
  @Test
  void namesOfFieldsAreNotRemembered() throws IOException {
    String text = "{\"a name that could be long\": 1}";
    assertNotSame(Json.object(text, "it").fieldNames().next(), Json.object(text, "it").fieldNames().next());
  }

  @Test
  void whatIsNoObjectIsRefused() {
    for (String text : new String[] {"", "[]", "7", "null", "{", "no json"}) {
      assertThrows(IOException.class, () -> Json.object(text, "it"), text);
    }
  }

  @Test
  void depthElementsAndDigitsAreBounded() throws IOException {
    assertEquals(10_000, Json.object("{\"a\": [[" + String.join(",", Collections.nCopies(10_000, "1")) + "]]}", "it")
        .path("a").path(0).size());
    assertThrows(IOException.class,
        () -> Json.object("{\"a\": [" + String.join(",", Collections.nCopies(20_000, "1")) + "]}", "it"));
    assertThrows(IOException.class, () -> Json.object("{\"a\": [[[[[[[[1]]]]]]]]}", "it"));
    assertThrows(IOException.class,
        () -> Json.object("{\"a\": " + String.join("", Collections.nCopies(31, "1")) + "}", "it"));
  }

  /** What sidecars write is read with these bounds, whatever it is. */
  @Test
  void noOtherClassOfTheShimReadsJson() throws IOException {
    List<String> found = new ArrayList<>();
    try (Stream<Path> files = Files.walk(Paths.get("src/main/java"))) {
      for (Path file : files.filter(each -> each.toString().endsWith(".java")).collect(Collectors.toList())) {
        String text = new String(Files.readAllBytes(file), StandardCharsets.UTF_8);
        if (text.matches("(?s).*(\\.read(Tree|Value|er|erFor)\\(|createParser\\().*")) {
          found.add(file.getFileName().toString());
        }
      }
    }
    assertEquals("[Json.java]", found.toString());
  }
}
