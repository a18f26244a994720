// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.GateProbe;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerNode;
import org.junit.jupiter.api.Test;

class CompatTest {
  private static final String SCHEDULER = "org/apache/hadoop/yarn/server/resourcemanager/scheduler/capacity/";

  private static List<String> missing(String... lines) {
    return SelfCheck.missing(Arrays.asList(lines), CompatTest.class.getClassLoader());
  }

  @Test
  void allThatTheShimRefersToIsInThisHadoop() {
    assertNull(SelfCheck.verdict());
  }

  @Test
  void theListHasWhatTheShimRefersTo() throws IOException {
    List<String> list = SelfCheck.list();
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
  void theStockSchedulerComesToTheGate() {
    assertNull(GateProbe.verdict());
  }

  @Test
  void theGateMustBeReached() {
    String verdict = GateProbe.verdict(new GateProbe() {
      @Override
      public FiCaSchedulerNode getNode(NodeId id) {
        return null;
      }
    });
    assertTrue(verdict.contains("does not come to ours"), verdict);
    assertTrue(verdict.contains("class path"), verdict);
  }

  @Test
  void whatFailsOnTheWayToTheGateIsShown() {
    String verdict = GateProbe.verdict(new GateProbe() {
      @Override
      public FiCaSchedulerNode getNode(NodeId id) {
        throw new IllegalStateException("another way");
      }
    });
    assertTrue(verdict.contains("does not come to ours: java.lang.IllegalStateException: another way"), verdict);
  }
}
