package io.treadle.shim.compat;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler;
import org.junit.jupiter.api.Test;

class CompatTest {
  private static final String SCHEDULER = "org/apache/hadoop/yarn/server/resourcemanager/scheduler/capacity/";
  private static final String GATE_DESCRIPTOR =
      "(Lorg/apache/hadoop/yarn/server/resourcemanager/scheduler/placement/CandidateNodeSet;Z)L" + SCHEDULER
          + "CSAssignment;";

  private static byte[] capacityScheduler() throws IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try (InputStream in = CapacityScheduler.class.getResourceAsStream("CapacityScheduler.class")) {
      byte[] buffer = new byte[4096];
      for (int count = in.read(buffer); count > 0; count = in.read(buffer)) {
        bytes.write(buffer, 0, count);
      }
    }
    return bytes.toByteArray();
  }

  private static boolean calls(byte[] classFile, String name, String descriptor) throws IOException {
    return GateCheck.calls(new ByteArrayInputStream(classFile), CapacityScheduler.class.getName(), name, descriptor);
  }

  private static List<String> missing(String... lines) {
    return ReferenceCheck.missing(Arrays.asList(lines), CompatTest.class.getClassLoader());
  }

  @Test
  void allThatTheShimRefersToIsInThisHadoop() {
    assertNull(ReferenceCheck.verdict());
  }

  @Test
  void whatRunsWithoutAResourceManagerFindsThatToo() {
    assertNull(SelfCheck.verdict());
  }

  @Test
  void theListHasWhatTheShimRefersTo() throws IOException {
    List<String> list = ReferenceCheck.list();
    assertTrue(list.size() > 350, list.size() + " references");
    assertTrue(list.contains(SCHEDULER + "CapacityScheduler <init> ()V"), list.toString());
    assertTrue(list.stream().noneMatch(line -> line.contains("TreadleScheduler ")), list.toString());
  }

  /** A static method, a constructor, inherited methods of classes and of interfaces, one of Object's, and a field. */
  @Test
  void findsWhatIsThere() {
    assertEquals(Collections.emptyList(), missing(
        SCHEDULER + "CSQueue",
        "org/apache/hadoop/yarn/util/resource/Resources none ()Lorg/apache/hadoop/yarn/api/records/Resource;",
        SCHEDULER + "CapacityScheduler <init> ()V",
        SCHEDULER + "CapacityScheduler getName ()Ljava/lang/String;",
        SCHEDULER + "CSQueue getQueuePath ()Ljava/lang/String;",
        SCHEDULER + "CSQueue hashCode ()I",
        "org/apache/hadoop/yarn/conf/YarnConfiguration RM_PREFIX Ljava/lang/String;"));
  }

  @Test
  void findsWhatIsMissing() {
    assertEquals(Arrays.asList(
        "org.apache.hadoop.yarn.util.resource.Resaurces",
        "org.apache.hadoop.yarn.util.resource.Resources.nothing ()I",
        SCHEDULER.replace('/', '.') + "CapacityScheduler.<init> (I)V",
        SCHEDULER.replace('/', '.') + "CapacityScheduler.getName ()Ljava/lang/Number;",
        SCHEDULER.replace('/', '.') + "CSQueue.getQueuePath ()Lorg/apache/hadoop/Path;",
        "org.apache.hadoop.yarn.conf.YarnConfiguration.RM_PREFIX I"), missing(
        "org/apache/hadoop/yarn/util/resource/Resaurces",
        "org/apache/hadoop/yarn/util/resource/Resources nothing ()I",
        SCHEDULER + "CapacityScheduler <init> (I)V",
        SCHEDULER + "CapacityScheduler getName ()Ljava/lang/Number;",
        SCHEDULER + "CSQueue getQueuePath ()Lorg/apache/hadoop/Path;",
        "org/apache/hadoop/yarn/conf/YarnConfiguration RM_PREFIX I"));
  }

  @Test
  void theStockSchedulerCallsItsGate() throws IOException {
    assertTrue(calls(capacityScheduler(), "allocateContainersToNode", GATE_DESCRIPTOR));
    assertFalse(calls(capacityScheduler(), "allocateContainersToNode", "()V"));
    assertFalse(calls(capacityScheduler(), "serviceStop", "()V"), "it declares that and calls its parent's");
  }

  @Test
  void aBrokenClassFileIsAnIoException() throws IOException {
    byte[] bytes = capacityScheduler();
    for (int length = 0; length < 200; length += 10) {
      byte[] part = Arrays.copyOf(bytes, length);
      assertThrows(IOException.class, () -> calls(part, "run", "()V"), length + " bytes");
    }
    bytes[10] = 100;
    assertThrows(IOException.class, () -> calls(bytes, "run", "()V"));
  }

  @Test
  void theGateMustReachOurs() {
    String verdict = GateCheck.verdict(new CapacityScheduler(), () -> false);
    assertTrue(verdict.contains("does not reach ours"), verdict);
    assertTrue(verdict.contains("class path"), verdict);
  }
}
