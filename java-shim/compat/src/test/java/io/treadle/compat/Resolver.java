// SPDX-License-Identifier: Apache-2.0
package io.treadle.compat;

import io.treadle.references.References;
import java.util.ArrayList;
import java.util.List;
import org.objectweb.asm.Opcodes;

/** Says what of a class's references a release of Hadoop lacks, hides or forbids. */
final class Resolver {
  private final Release release;

  Resolver(Release release) {
    this.release = release;
  }

  /** What is wrong, a line each; empty if the class would link. */
  List<String> problems(References references) {
    List<String> problems = new ArrayList<>();
    String from = references.name();
    for (String name : references.classes()) {
      ClassShape shape = release.shape(name);
      if (shape == null) {
        problems.add(from + " refers to the class " + name + ", which is missing");
      } else if (!shape.isPublic() && !samePackage(from, name)) {
        problems.add(from + " refers to the class " + name + ", which is not public");
      }
    }
    for (References.Member member : references.members()) {
      String key = member.key();
      ClassShape declaring = release.declaring(member.owner(), key);
      boolean own = references.isOwn(member);
      if (declaring == null && !own) {
        problems.add(from + " refers to " + member + ", which is missing");
      } else if (declaring != null && !own && !isAccessible(references, declaring, declaring.members().get(key))) {
        problems.add(from + " refers to " + member + ", which it may not use");
      }
    }
    for (String key : references.overridable()) {
      if (overridesFinal(references.superName(), key)) {
        problems.add(from + " overrides " + key + ", which is final");
      }
    }
    return problems;
  }

  private static boolean samePackage(String one, String other) {
    return ClassShape.packageOf(one).equals(ClassShape.packageOf(other));
  }

  private boolean isAccessible(References references, ClassShape declaring, int access) {
    if ((access & Opcodes.ACC_PUBLIC) != 0) {
      return true;
    }
    if ((access & Opcodes.ACC_PRIVATE) != 0) {
      return false;
    }
    return samePackage(references.name(), declaring.name())
        || (access & Opcodes.ACC_PROTECTED) != 0 && isSubclass(references.superName(), declaring.name());
  }

  private boolean isSubclass(String name, String ancestor) {
    for (String current = name; current != null; ) {
      if (current.equals(ancestor)) {
        return true;
      }
      ClassShape shape = release.shape(current);
      current = shape == null ? null : shape.superName();
    }
    return false;
  }

  private boolean overridesFinal(String superName, String key) {
    for (ClassShape shape = release.shape(superName); shape != null;
        shape = shape.superName() == null ? null : release.shape(shape.superName())) {
      Integer access = shape.members().get(key);
      if (access != null && (access & Opcodes.ACC_PRIVATE) == 0) {
        return (access & Opcodes.ACC_FINAL) != 0;
      }
    }
    return false;
  }
}
