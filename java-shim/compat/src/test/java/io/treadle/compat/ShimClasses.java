// SPDX-License-Identifier: Apache-2.0
package io.treadle.compat;

import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.net.JarURLConnection;
import java.net.URI;
import java.net.URL;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * The class files of the shim and of the jar of requirements: in the jars, or in the folders where they were compiled
 * to if there is no jar yet.
 */
final class ShimClasses {
  private static final String SCHEDULER =
      "org/apache/hadoop/yarn/server/resourcemanager/scheduler/capacity/TreadleScheduler.class";
  private static final String ALLOCATOR = "io/treadle/shim/constraints/TreadlePlacementAllocator.class";

  private ShimClasses() {
  }

  /** All of them but those of libraries that the jar carries. */
  static List<byte[]> all() throws IOException {
    List<byte[]> classes = new ArrayList<>(with(SCHEDULER));
    classes.addAll(with(ALLOCATOR));
    return classes;
  }

  /** Those beside one of them. */
  private static List<byte[]> with(String file) throws IOException {
    URL url = ShimClasses.class.getClassLoader().getResource(file);
    if (url == null) {
      throw new IOException(file + " is not in the class path");
    }
    if (url.getProtocol().equals("jar")) {
      return ofJar(new File(((JarURLConnection) url.openConnection()).getJarFileURL().getPath()));
    }
    String path = url.toString();
    return ofFolder(Paths.get(URI.create(path.substring(0, path.length() - file.length()))));
  }

  private static boolean isOurs(String name) {
    return name.endsWith(".class") && !name.contains("/shaded/") && (name.startsWith("io/treadle/")
        || name.startsWith("org/apache/hadoop/"));
  }

  private static List<byte[]> ofJar(File file) throws IOException {
    List<byte[]> classes = new ArrayList<>();
    try (JarFile jar = new JarFile(file)) {
      for (JarEntry entry : Collections.list(jar.entries())) {
        if (isOurs(entry.getName())) {
          try (InputStream in = jar.getInputStream(entry)) {
            classes.add(bytes(in));
          }
        }
      }
    }
    return classes;
  }

  private static List<byte[]> ofFolder(Path folder) throws IOException {
    List<Path> files;
    try (Stream<Path> walk = Files.walk(folder)) {
      files = walk.filter(Files::isRegularFile).collect(Collectors.toList());
    }
    List<byte[]> classes = new ArrayList<>();
    for (Path file : files) {
      if (isOurs(folder.relativize(file).toString().replace(File.separatorChar, '/'))) {
        classes.add(Files.readAllBytes(file));
      }
    }
    return classes;
  }

  private static byte[] bytes(InputStream in) throws IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    byte[] buffer = new byte[8192];
    for (int count = in.read(buffer); count > 0; count = in.read(buffer)) {
      bytes.write(buffer, 0, count);
    }
    return bytes.toByteArray();
  }
}
