// SPDX-License-Identifier: Apache-2.0
package io.treadle.compat;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import org.objectweb.asm.ClassReader;

/** The classes of a release of Hadoop, read from its jars without loading them, and those of the JDK. */
final class Release {
  private final Map<String, ClassShape> shapes = new HashMap<>();

  /** The classes in all jars of a folder. */
  Release(File folder) throws IOException {
    File[] jars = folder.listFiles((parent, name) -> name.endsWith(".jar"));
    if (jars == null || jars.length == 0) {
      throw new IOException("no jars in " + folder);
    }
    for (File jar : jars) {
      read(jar);
    }
  }

  private void read(File file) throws IOException {
    try (JarFile jar = new JarFile(file)) {
      for (JarEntry entry : Collections.list(jar.entries())) {
        String name = entry.getName();
        if (name.startsWith("org/apache/hadoop/") && name.endsWith(".class")) {
          try (InputStream in = jar.getInputStream(entry)) {
            shapes.put(name.substring(0, name.length() - ".class".length()), ClassShape.of(new ClassReader(in)));
          }
        }
      }
    }
  }

  /** A class by its internal name, or null if it is neither in the release nor in the JDK. */
  ClassShape shape(String name) {
    return shapes.computeIfAbsent(name, Release::ofJdk);
  }

  private static ClassShape ofJdk(String name) {
    if (!name.startsWith("java/") && !name.startsWith("javax/")) {
      return null;
    }
    try {
      return ClassShape.of(new ClassReader(name));
    } catch (IOException e) {
      return null;
    }
  }

  /**
   * The member that the JVM would find: in the class, its superclasses, its interfaces (JVMS 5.4.3).
   *
   * @param member name and descriptor, as {@link ClassShape#members} has them
   * @return the class that declares it, or null
   */
  ClassShape declaring(String owner, String member) {
    for (ClassShape shape = shape(owner); shape != null; shape = shape.superName() == null ? null
        : shape(shape.superName())) {
      if (shape.members().containsKey(member)) {
        return shape;
      }
    }
    return declaringInterface(owner, member);
  }

  private ClassShape declaringInterface(String owner, String member) {
    ClassShape shape = shape(owner);
    if (shape == null) {
      return null;
    }
    if (shape.members().containsKey(member)) {
      return shape;
    }
    for (String implemented : shape.interfaces()) {
      ClassShape found = declaringInterface(implemented, member);
      if (found != null) {
        return found;
      }
    }
    return shape.superName() == null ? null : declaringInterface(shape.superName(), member);
  }
}
