// SPDX-License-Identifier: Apache-2.0
package io.treadle.compat;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.treadle.references.References;
import java.io.File;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;

/** Each class of the shim would link, whenever it is loaded, in each release of Hadoop that Treadle is for. */
class ShimReferencesTest {
  private static final String SCHEDULER = "org/apache/hadoop/yarn/server/resourcemanager/scheduler/capacity/";

  private static Resolver resolver(String version) throws IOException {
    return new Resolver(new Release(new File(System.getProperty("hadoop.releases"), version)));
  }

  /** A class in a package that calls a static method. */
  private static References caller(String name, String owner, String method, String descriptor) {
    ClassWriter writer = new ClassWriter(0);
    writer.visit(Opcodes.V1_8, Opcodes.ACC_PUBLIC, name, null, "java/lang/Object", null);
    MethodVisitor code = writer.visitMethod(Opcodes.ACC_STATIC, "call", "()V", null, null);
    code.visitCode();
    code.visitMethodInsn(Opcodes.INVOKESTATIC, owner, method, descriptor, false);
    code.visitInsn(Opcodes.RETURN);
    code.visitMaxs(3, 0);
    code.visitEnd();
    writer.visitEnd();
    return References.of(new ClassReader(writer.toByteArray()));
  }

  @ParameterizedTest
  @ValueSource(strings = {"3.3.6", "3.4.1", "3.4.2", "3.4.3", "3.5.0"})
  void everyReferenceToHadoopResolves(String version) throws IOException {
    Resolver resolver = resolver(version);
    List<String> problems = new ArrayList<>();
    for (byte[] bytes : ShimClasses.all()) {
      problems.addAll(resolver.problems(References.of(new ClassReader(bytes))));
    }
    assertEquals(Collections.emptyList(), problems);
  }

  /** What io.treadle.shim.LeafQueues looks up by name, so that no reference in a class file shows it. */
  @ParameterizedTest
  @CsvSource({"3.3.6,LeafQueue", "3.4.1,AbstractLeafQueue", "3.4.2,AbstractLeafQueue", "3.4.3,AbstractLeafQueue",
      "3.5.0,AbstractLeafQueue"})
  void whatIsLookedUpByNameIsThere(String version, String leaf) throws IOException {
    Release release = new Release(new File(System.getProperty("hadoop.releases"), version));
    String info = SCHEDULER + leaf + "$QueueResourceLimitsInfo";
    String resource = "org/apache/hadoop/yarn/api/records/Resource";
    Set<String> ofLeaf = release.shape(SCHEDULER + leaf).members().keySet();
    String policy = "Lorg/apache/hadoop/yarn/server/resourcemanager/scheduler/policy/OrderingPolicy;";
    String limits = "Lorg/apache/hadoop/yarn/server/resourcemanager/scheduler/ResourceLimits;";
    assertTrue(ofLeaf.containsAll(Arrays.asList(
        References.key("cachedResourceLimitsForHeadroom", limits),
        References.key("queueResourceLimitsInfo", "L" + info + ";"),
        References.key("getOrderingPolicy", "()" + policy),
        References.key("setQueueResourceLimitsInfo", "(L" + resource + ";)V"),
        References.key("activateApplications", "()V"))), ofLeaf.toString());
    Set<String> ofApp = release.shape("org/apache/hadoop/yarn/server/resourcemanager/scheduler/common/fica/"
        + "FiCaSchedulerApp").members().keySet();
    assertTrue(ofApp.contains(References.key("getCSLeafQueue", "()L" + SCHEDULER + leaf + ";")), ofApp.toString());
    Set<String> ofInfo = release.shape(info).members().keySet();
    assertTrue(ofInfo.contains(References.key("getQueueCurrentLimit", "()L" + resource + ";")), ofInfo.toString());
  }

  @Test
  void theShimIsFoundAndRefersToHadoop() throws IOException {
    int members = 0;
    boolean scheduler = false;
    List<byte[]> classes = ShimClasses.all();
    for (byte[] bytes : classes) {
      References references = References.of(new ClassReader(bytes));
      members += references.members().size();
      scheduler |= references.name().equals(SCHEDULER + "TreadleScheduler");
    }
    assertTrue(scheduler);
    assertTrue(classes.size() > 30, classes.size() + " classes");
    assertTrue(members > 200, members + " references");
  }

  @Test
  void classFilesAreOfJava8() throws IOException {
    for (byte[] bytes : ShimClasses.all()) {
      References references = References.of(new ClassReader(bytes));
      assertEquals(52, references.version(), references.name());
    }
  }

  @Test
  void aMissingMethodIsFound() throws IOException {
    References missing = caller("io/treadle/Missing", SCHEDULER + "CapacityScheduler", "scheduleEverything", "()V");
    List<String> problems = resolver("3.4.2").problems(missing);
    assertEquals(1, problems.size());
    assertTrue(problems.get(0).contains("scheduleEverything"), problems.get(0));
  }

  @Test
  void aMissingClassIsFound() throws IOException {
    References missing = caller("io/treadle/Missing", SCHEDULER + "NoSuchScheduler", "schedule", "()V");
    assertEquals(2, resolver("3.4.2").problems(missing).size());
  }

  @Test
  void whatOnlySomeReleasesAllowIsFound() throws IOException {
    String descriptor = "(Lorg/apache/hadoop/yarn/server/resourcemanager/scheduler/common/fica/FiCaSchedulerNode;L"
        + SCHEDULER
        + "CapacityScheduler;Z)Z";
    References skip = caller("io/treadle/Skip", SCHEDULER + "CapacityScheduler", "shouldSkipNodeSchedule", descriptor);
    assertEquals(Collections.emptyList(), resolver("3.4.2").problems(skip));
    List<String> problems = resolver("3.3.6").problems(skip);
    assertEquals(1, problems.size());
    assertTrue(problems.get(0).contains("which it may not use"), problems.get(0));
  }

  @Test
  void whatIsPackagePrivateIsForThePackageOnly() throws IOException {
    String descriptor = "(L" + SCHEDULER + "CapacityScheduler;)V";
    assertFalse(resolver("3.4.2").problems(caller("io/treadle/Far", SCHEDULER + "CapacityScheduler", "schedule",
        descriptor))
        .isEmpty());
    assertEquals(Collections.emptyList(), resolver("3.4.2")
        .problems(caller(SCHEDULER + "Near", SCHEDULER + "CapacityScheduler", "schedule", descriptor)));
  }
}
