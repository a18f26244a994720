// SPDX-License-Identifier: Apache-2.0
package io.treadle.references;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;

class ReferenceListTest {
  private static final String PARENT = "org/apache/hadoop/Parent";

  /** Extends a class of Hadoop's; calls a method of its own, an inherited one, one that it overrides, and another's. */
  private static byte[] sample() {
    ClassWriter writer = new ClassWriter(0);
    writer.visit(Opcodes.V1_8, Opcodes.ACC_PUBLIC, "io/treadle/Sample", null, PARENT, null);
    MethodVisitor code = writer.visitMethod(Opcodes.ACC_STATIC, "own", "()V", null, null);
    code.visitCode();
    code.visitMethodInsn(Opcodes.INVOKESTATIC, "io/treadle/Sample", "own", "()V", false);
    code.visitMethodInsn(Opcodes.INVOKESTATIC, "io/treadle/Sample", "inherited", "()V", false);
    code.visitMethodInsn(Opcodes.INVOKESPECIAL, PARENT, "overridden", "()V", false);
    code.visitMethodInsn(Opcodes.INVOKESTATIC, "org/apache/hadoop/Other", "call", "()Lorg/apache/hadoop/Answer;",
        false);
    code.visitFieldInsn(Opcodes.GETSTATIC, "org/apache/hadoop/Other", "COUNT", "I");
    code.visitMethodInsn(Opcodes.INVOKESTATIC, "java/lang/System", "gc", "()V", false);
    code.visitInsn(Opcodes.RETURN);
    code.visitMaxs(2, 0);
    code.visitEnd();
    writer.visitMethod(Opcodes.ACC_PUBLIC | Opcodes.ACC_NATIVE, "overridden", "()V", null, null).visitEnd();
    writer.visitEnd();
    return writer.toByteArray();
  }

  @Test
  void whatIsOfHadoopIsListedOnce(@TempDir Path folder) throws IOException {
    Files.createDirectories(folder.resolve("a/b"));
    Files.write(folder.resolve("a/b/Sample.class"), sample());
    Files.write(folder.resolve("a/Again.class"), sample());
    Files.write(folder.resolve("a/notes.txt"), new byte[] {1});
    ReferenceList.main(new String[] {folder.toString(), "a/list"});
    assertEquals(Arrays.asList(
        "org/apache/hadoop/Answer",
        "org/apache/hadoop/Other",
        "org/apache/hadoop/Other COUNT I",
        "org/apache/hadoop/Other call ()Lorg/apache/hadoop/Answer;",
        PARENT,
        PARENT + " inherited ()V",
        PARENT + " overridden ()V"), Files.readAllLines(folder.resolve("a/list")));
  }

  @Test
  void aFolderOfNothingIsAnError(@TempDir Path folder) {
    assertThrows(IOException.class, () -> ReferenceList.main(new String[] {folder.toString(), "list"}));
  }
}
