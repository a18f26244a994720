// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.sidecar;

import com.fasterxml.jackson.databind.JsonNode;
import io.treadle.shim.Json;
import io.treadle.shim.Printable;
import java.io.IOException;

/** What a managed sidecar reports of its start, in a line of its standard output. Immutable. */
final class SidecarMessage {
  /** The version of a ready sidecar, else why it cannot start. */
  final String text;
  /** Where a ready sidecar listens on loopback, else 0. */
  final int port;

  private SidecarMessage(String text, int port) {
    this.text = Printable.brief(text);
    this.port = port;
  }

  /** Reads {@code {"ready": true, "port": n, ...}} or {@code {"error": text}}; null for all else. */
  static SidecarMessage parse(String line) {
    JsonNode root;
    try {
      root = Json.object(line, "a line");
    } catch (IOException e) {
      return null;
    }
    if (root.path("error").isTextual()) {
      return new SidecarMessage(root.path("error").asText(), 0);
    }
    if (!root.path("ready").asBoolean(false)) {
      return null;
    }
    int port = root.path("port").asInt(0);
    return port >= 1 && port <= 65535 ? new SidecarMessage(root.path("version").asText("?"), port)
        : new SidecarMessage("it is ready on no port: " + line, 0);
  }

  /** Whether the sidecar cannot start. */
  boolean isError() {
    return port == 0;
  }
}
