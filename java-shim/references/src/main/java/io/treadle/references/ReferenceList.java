// SPDX-License-Identifier: Apache-2.0
package io.treadle.references;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.objectweb.asm.ClassReader;

/**
 * Writes down what class files refer to in Hadoop, while they are built: a line {@code CLASS} for each class, and a
 * line {@code CLASS NAME DESCRIPTOR} for each member, sorted. The shim looks each up in the Hadoop that it runs in.
 */
public final class ReferenceList {
  private ReferenceList() {
  }

  /**
   * Writes the list.
   *
   * @param arguments the folder of the class files, and the list's path in it
   */
  public static void main(String[] arguments) throws IOException {
    Path folder = Paths.get(arguments[0]);
    Set<String> lines = lines(folder);
    if (lines.isEmpty()) {
      throw new IOException("no class file in " + folder + " refers to Hadoop");
    }
    Files.write(folder.resolve(arguments[1]), lines);
  }

  static Set<String> lines(Path folder) throws IOException {
    List<Path> files;
    try (Stream<Path> walk = Files.walk(folder)) {
      files = walk.filter(path -> path.toString().endsWith(".class")).collect(Collectors.toList());
    }
    Set<String> lines = new TreeSet<>();
    for (Path file : files) {
      References references = References.of(new ClassReader(Files.readAllBytes(file)));
      lines.addAll(references.classes());
      references.members().stream().filter(member -> !references.isOwn(member)).map(References.Member::toString)
          .forEach(lines::add);
    }
    return lines;
  }
}
