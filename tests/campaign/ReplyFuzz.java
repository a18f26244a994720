// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.link;

import com.fasterxml.jackson.databind.JsonNode;
import io.treadle.shim.Json;
import io.treadle.shim.wire.ProposalFrame;
import java.io.IOException;

/** The shim's side of the codec for Jazzer: what a sidecar answers, status included. */
public final class ReplyFuzz {
  private ReplyFuzz() {
  }

  /** Called once, before: loading Jackson is not to count as the time that an input takes. */
  public static void fuzzerInitialize() throws IOException {
    status("{\"policy\": \"fifo\", \"warnings\": [\"one\"], \"error\": null}");
  }

  /** Called with what the fuzzer makes up. */
  public static void fuzzerTestOneInput(byte[] content) {
    boolean mutant = Boolean.getBoolean("treadle.fuzz.mutant");
    try {
      ProposalFrame frame = ProposalFrame.parse(content, 4096);
      status(frame.status);
    } catch (IOException e) {
      if (mutant) {
        throw new IllegalStateException("planted", e);
      }
    }
  }

  private static void status(String text) throws IOException {
    JsonNode status = Json.object(text, "the status of an answer");
    StatusReports.texts(status.path("warnings"));
    StatusReports.keyed(status.path("keys_for"));
    StatusReports.diagnostics(status.path("diagnostics"));
  }
}
