package io.treadle.shim.sidecar;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.treadle.shim.Printable;
import java.io.IOException;

/** A line that a managed sidecar wrote to its standard output. Immutable. */
final class SidecarMessage {
  /** What a line says. */
  enum Kind { PROGRESS, READY, ERROR, OTHER }

  private static final ObjectMapper JSON = new ObjectMapper();

  private final Kind kind;
  private final String text;
  private final int port;

  private SidecarMessage(Kind kind, String text, int port) {
    this.kind = kind;
    this.text = Printable.line(text);
    this.port = port;
  }

  /**
   * Reads {@code {"progress": text}}, {@code {"ready": true, "port": n, ...}} or {@code {"error": text}}; all else is
   * OTHER.
   */
  static SidecarMessage parse(String line) {
    JsonNode root;
    try {
      root = JSON.readTree(line);
    } catch (IOException | StackOverflowError e) {
      // the latter for brackets within brackets, in Jackson before 2.13
      root = null;
    }
    if (root == null || !root.isObject()) {
      return new SidecarMessage(Kind.OTHER, line, 0);
    }
    if (root.path("error").isTextual()) {
      return new SidecarMessage(Kind.ERROR, root.path("error").asText(), 0);
    }
    int port = root.path("port").asInt(0);
    if (root.path("ready").asBoolean(false)) {
      return port >= 1 && port <= 65535 ? new SidecarMessage(Kind.READY, root.path("version").asText("?"), port)
          : new SidecarMessage(Kind.ERROR, "it is ready on no port: " + line, 0);
    }
    boolean progress = root.path("progress").isTextual();
    return new SidecarMessage(progress ? Kind.PROGRESS : Kind.OTHER, progress ? root.path("progress").asText() : line,
        0);
  }

  Kind kind() {
    return kind;
  }

  /** The progress, the error, the version of a ready sidecar, or the line itself; fit for a log. */
  String text() {
    return text;
  }

  /** Where a ready sidecar listens on loopback, else 0. */
  int port() {
    return port;
  }
}
