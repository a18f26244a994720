package io.treadle.shim.check;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.TreadleScheduler;
import org.apache.hadoop.yarn.util.resource.Resources;
import org.junit.jupiter.api.Test;

class ChecksTest {
  /** Refers to a static method, a constructor, an inherited method and an interface's method of Hadoop's. */
  private static final class Sample {
    private Sample() {
    }

    static Object refer(CapacityScheduler scheduler) {
      scheduler.getName();
      scheduler.getRootQueue().getQueuePath();
      return Resources.clone(Resources.none()).equals(new CapacityScheduler());
    }
  }

  private static byte[] sample() throws IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try (InputStream in = Sample.class.getResourceAsStream("ChecksTest$Sample.class")) {
      byte[] buffer = new byte[4096];
      for (int count = in.read(buffer); count > 0; count = in.read(buffer)) {
        bytes.write(buffer, 0, count);
      }
    }
    return bytes.toByteArray();
  }

  /** The sample with a text in its constant pool changed for another of the same length. */
  private static List<String> missing(String text, String other) throws IOException {
    String content = new String(sample(), StandardCharsets.ISO_8859_1);
    assertTrue(content.contains(text), text);
    byte[] changed = content.replace(text, other).getBytes(StandardCharsets.ISO_8859_1);
    return ReferenceCheck.missing(new ByteArrayInputStream(changed), ChecksTest.class.getClassLoader());
  }

  @Test
  void allThatTheShimRefersToIsInThisHadoop() throws IOException {
    assertNull(ReferenceCheck.verdict());
    assertEquals(Collections.emptyList(), ReferenceCheck.missing(TreadleScheduler.class));
  }

  @Test
  void findsWhatIsMissing() throws IOException {
    assertEquals(Collections.emptyList(), missing("getName", "getName"));
    List<String> method = missing("getQueuePath", "getQueuePeth");
    assertEquals(1, method.size(), method.toString());
    assertTrue(method.get(0).contains("getQueuePeth"), method.get(0));
    List<String> type = missing("util/resource/Resources", "util/resource/Resaurces");
    assertTrue(type.get(0).contains("Resaurces"), type.toString());
    List<String> returned = missing("()Ljava/lang/String;", "()Ljava/lang/Number;");
    assertTrue(returned.stream().anyMatch(text -> text.contains("getName")), returned.toString());
  }

  @Test
  void classFilesAreOfJava8() throws IOException {
    assertEquals(52, ClassFile.read(new ByteArrayInputStream(sample())).majorVersion());
  }

  @Test
  void aBrokenClassFileIsAnIoException() throws IOException {
    byte[] bytes = sample();
    for (int length = 0; length < 200; length += 10) {
      byte[] part = Arrays.copyOf(bytes, length);
      assertThrows(IOException.class, () -> ClassFile.read(new ByteArrayInputStream(part)), length + " bytes");
    }
  }

  @Test
  void theGateMustReachOurs() {
    String verdict = GateCheck.verdict(new CapacityScheduler(), () -> false);
    assertTrue(verdict.contains("does not reach ours"), verdict);
    assertTrue(verdict.contains("class path"), verdict);
  }
}
