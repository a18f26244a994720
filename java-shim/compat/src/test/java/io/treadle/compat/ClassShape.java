// SPDX-License-Identifier: Apache-2.0
package io.treadle.compat;

import io.treadle.references.References;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassVisitor;
import org.objectweb.asm.FieldVisitor;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;

/** What other classes can see of a class: its parents and its members with their access flags. */
final class ClassShape {
  private final String name;
  private final String superName;
  private final List<String> interfaces;
  private final int access;
  private final Map<String, Integer> members = new HashMap<>();

  private ClassShape(ClassReader reader) {
    this.name = reader.getClassName();
    this.superName = reader.getSuperName();
    this.interfaces = Arrays.asList(reader.getInterfaces());
    this.access = reader.getAccess();
  }

  static ClassShape of(ClassReader reader) {
    ClassShape shape = new ClassShape(reader);
    reader.accept(new ClassVisitor(Opcodes.ASM9) {
      @Override
      public FieldVisitor visitField(int access, String name, String descriptor, String signature, Object value) {
        shape.members.put(References.key(name, descriptor), access);
        return null;
      }

      @Override
      public MethodVisitor visitMethod(int access, String name, String descriptor, String signature, String[] thrown) {
        shape.members.put(References.key(name, descriptor), access);
        return null;
      }
    }, ClassReader.SKIP_CODE | ClassReader.SKIP_DEBUG | ClassReader.SKIP_FRAMES);
    return shape;
  }

  static String packageOf(String internalName) {
    return internalName.substring(0, internalName.lastIndexOf('/') + 1);
  }

  String name() {
    return name;
  }

  /** Null for Object only. */
  String superName() {
    return superName;
  }

  List<String> interfaces() {
    return interfaces;
  }

  boolean isPublic() {
    return (access & Opcodes.ACC_PUBLIC) != 0;
  }

  /** Access flags by {@link References#key}. */
  Map<String, Integer> members() {
    return members;
  }
}
