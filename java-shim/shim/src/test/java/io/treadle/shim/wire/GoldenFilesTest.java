// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.wire;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.treadle.shim.cluster.Answers;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.List;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;

/** The files in tests/golden, which the Python side reads and writes, too. */
class GoldenFilesTest {
  private static final Path GOLDEN = Paths.get("../../tests/golden");

  @Test
  void writesTheGoldenFrame() throws Exception {
    JsonNode json = json("frame-snapshot.json");
    JsonNode header = json.get("header");
    FrameWriter writer = new FrameWriter(header.get("resources").asInt(), 1 << 20);
    int index = 0;
    for (JsonNode text : json.get("sections").get("STRINGS").get("texts")) {
      writer.text(index++, text.asText());
    }
    for (Section section : Section.values()) {
      if (section != Section.STRINGS) {
        fill(writer.section(section), section, json.get("sections").get(section.name()));
      }
    }
    List<byte[]> frames = writer.frames(header.get("epoch").asLong(), header.get("sequence").asLong(),
        header.get("rm_time_ms").asLong(), header.get("flags").asInt(), header.get("configuration").asInt(),
        header.get("limit").asInt());
    assertEquals(1, frames.size());
    assertArrayEquals(bytes("frame-snapshot.bin"), frames.get(0));
  }

  private static void fill(SectionWriter rows, Section section, JsonNode columns) {
    JsonNode schema = FrameReader.columns(section);
    JsonNode first = columns.get(schema.get(0).get(0).asText());
    for (int row = 0; row < first.size(); row++) {
      for (JsonNode column : schema) {
        JsonNode values = columns.get(column.get(0).asText());
        switch (column.get(1).asText()) {
          case "u8":
            rows.add(values.get(row).asInt());
            break;
          case "i64":
            rows.add(values.get(row).asLong());
            break;
          case "R*i64":
            rows.amounts(new long[] {
                values.get(0).get(row).asLong(), values.get(1).get(row).asLong(), values.get(2).get(row).asLong()});
            break;
          default:
            rows.add(values.get(row).asInt());
        }
      }
      rows.end();
    }
  }

  @Test
  void readsTheGoldenProposals() throws Exception {
    JsonNode json = json("proposals.json");
    ProposalFrame frame = ProposalFrame.parse(bytes("proposals.bin"), 4);
    assertEquals(json.get("epoch").asLong(), frame.epoch);
    assertEquals(json.get("sequence").asLong(), frame.sequence);
    assertEquals(29, json.get("flags").asInt());
    assertTrue(frame.resend && frame.hasTransactions && frame.unserved && !frame.again);
    assertEquals(json.get("status").asText(), frame.status);
    assertEquals(bits(json.get("held_applications")), frame.heldApplications);
    assertEquals(bits(json.get("held_nodes")), frame.heldNodes);
    assertEquals(json.get("application").size(), frame.size());
    for (int i = 0; i < frame.size(); i++) {
      assertEquals(json.get("application").get(i).asInt(), frame.application(i));
      assertEquals(json.get("key").get(i).asInt(), frame.requestKey(i));
      assertEquals(json.get("node").get(i).asInt(), frame.node(i));
      assertEquals(json.get("transaction").get(i).asInt(), frame.transaction(i));
    }
  }

  @Test
  void writesTheGoldenProposals() throws Exception {
    JsonNode json = json("proposals.json");
    int[][] rows = new int[json.get("application").size()][];
    for (int i = 0; i < rows.length; i++) {
      rows[i] = new int[] {json.get("application").get(i).asInt(), json.get("key").get(i).asInt(),
          json.get("node").get(i).asInt(), json.get("transaction").get(i).asInt()};
    }
    assertArrayEquals(bytes("proposals.bin"), Answers.encode(json.get("flags").asInt(),
        json.get("epoch").asLong(), json.get("sequence").asLong(),
        json.get("decide_us").asLong(), json.get("status").asText(),
        bits(json.get("held_applications")), bits(json.get("held_nodes")), rows));
  }

  private static BitSet bits(JsonNode indices) {
    BitSet bits = new BitSet();
    indices.forEach(index -> bits.set(index.asInt()));
    return bits;
  }

  @Test
  void sectionsAndFatesAreThoseOfTheSchema() {
    List<String> sections = new ArrayList<>();
    List<String> fates = new ArrayList<>();
    WireSchema.ROOT.get("sections").forEach(section -> sections.add(section.get("name").asText()));
    WireSchema.ROOT.get("fates").forEach(fate -> fates.add(fate.asText()));
    // a sidecar with several engines gives them
    fates.removeAll(Arrays.asList("NOT_OWNER", "CHANGED", "CLAIM"));
    assertEquals(sections, Arrays.stream(Section.values()).map(Enum::name).collect(Collectors.toList()));
    assertEquals(fates, Arrays.stream(Fate.values()).map(Enum::name).collect(Collectors.toList()));
  }

  private static JsonNode json(String name) throws IOException {
    return new ObjectMapper().readTree(bytes(name));
  }

  private static byte[] bytes(String name) throws IOException {
    return Files.readAllBytes(GOLDEN.resolve(name));
  }
}
