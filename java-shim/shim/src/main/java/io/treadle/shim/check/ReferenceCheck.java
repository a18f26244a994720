package io.treadle.shim.check;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.lang.invoke.MethodType;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.net.URISyntaxException;
import java.net.URL;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * Looks up, in the running Hadoop, everything of Hadoop that the shim's own class files refer to. A missing member
 * would otherwise show when the code that needs it runs for the first time, perhaps months after the start.
 */
public final class ReferenceCheck {
  private static final String HADOOP = "org/apache/hadoop/";
  private static final String OURS = "io/treadle/shim/";
  private static final String SCHEDULER = "/scheduler/capacity/TreadleScheduler";
  /** javac's table of an enum's constants, which skips those that do not exist. */
  private static final String SWITCH_MAP = "$SwitchMap$";
  private static final int MISSING_SHOWN = 10;

  private final ClassLoader loader;
  private final Set<String> checked = new HashSet<>();
  private final List<String> missing = new ArrayList<>();

  private ReferenceCheck(ClassLoader loader) {
    this.loader = loader;
  }

  /**
   * Checks the shim's own class files, once in the life of the JVM.
   *
   * @return what is wrong, in words for an administrator, or null
   */
  public static String verdict() {
    return Verdict.TEXT;
  }

  private static String ofOurs() {
    try {
      List<String> missing = missing(ReferenceCheck.class);
      return missing.isEmpty() ? null : "this Hadoop lacks what Treadle needs: " + String.join(", ", missing);
    } catch (IOException | RuntimeException | LinkageError e) {
      return "Treadle cannot check itself against this Hadoop: " + e;
    }
  }

  private static final class Verdict {
    private static final String TEXT = ofOurs();
  }

  /**
   * Checks all class files of the jar, or folder, that a class of ours came from.
   *
   * @return what is missing, empty if nothing is; at most the first few
   * @throws IOException if the class files cannot be read
   */
  public static List<String> missing(Class<?> ours) throws IOException {
    URL location = ours.getProtectionDomain().getCodeSource().getLocation();
    ReferenceCheck check = new ReferenceCheck(ours.getClassLoader());
    try {
      check.checkAll(new File(location.toURI()));
    } catch (URISyntaxException | IllegalArgumentException | UncheckedIOException e) {
      throw new IOException("cannot read the class files at " + location, e);
    }
    List<String> found = check.missing;
    return found.size() <= MISSING_SHOWN ? found : found.subList(0, MISSING_SHOWN);
  }

  /** What is missing of what one class file refers to. */
  static List<String> missing(InputStream classFile, ClassLoader loader) throws IOException {
    ReferenceCheck check = new ReferenceCheck(loader);
    check.check(classFile);
    return check.missing;
  }

  private void checkAll(File location) throws IOException {
    if (location.isDirectory()) {
      try (Stream<Path> files = Files.walk(location.toPath())) {
        for (Path path : files.filter(Files::isRegularFile).collect(Collectors.toList())) {
          if (isOurs(location.toPath().relativize(path).toString().replace(File.separatorChar, '/'))) {
            try (InputStream in = Files.newInputStream(path)) {
              check(in);
            }
          }
        }
      }
      return;
    }
    try (JarFile jar = new JarFile(location)) {
      for (JarEntry entry : Collections.list(jar.entries())) {
        if (isOurs(entry.getName())) {
          try (InputStream in = jar.getInputStream(entry)) {
            check(in);
          }
        }
      }
    }
  }

  private static boolean isOurs(String name) {
    return name.endsWith(".class") && (name.startsWith(OURS) || name.contains(SCHEDULER));
  }

  private void check(InputStream stream) throws IOException {
    ClassFile file = ClassFile.read(stream);
    for (String name : file.classes()) {
      if (isHadoop(name) && checked.add(name)) {
        try {
          load(name);
        } catch (ClassNotFoundException | LinkageError e) {
          missing.add(name.replace('/', '.'));
        }
      }
    }
    boolean switchMap = file.members().stream().anyMatch(member -> member.name().startsWith(SWITCH_MAP));
    for (ClassFile.Member member : file.members()) {
      boolean optional = member.isField() && switchMap;
      if (isHadoop(member.owner()) && !optional && checked.add(member.toString()) && !exists(member)) {
        missing.add(member.toString());
      }
    }
  }

  /** Ours in Hadoop's package is checked by the JVM when it is loaded. */
  private static boolean isHadoop(String name) {
    return name.startsWith(HADOOP) && !name.contains(SCHEDULER);
  }

  private Class<?> load(String name) throws ClassNotFoundException {
    return Class.forName(name.replace('/', '.'), false, loader);
  }

  private boolean exists(ClassFile.Member member) {
    try {
      Class<?> owner = load(member.owner());
      if (member.isField()) {
        return hasField(owner, member);
      }
      MethodType type = MethodType.fromMethodDescriptorString(member.descriptor(), loader);
      if ("<init>".equals(member.name())) {
        owner.getDeclaredConstructor(type.parameterArray());
        return true;
      }
      return hasMethod(owner, member.name(), type) || owner.isInterface() && hasMethod(Object.class, member.name(),
          type);
    } catch (NoSuchMethodException | ClassNotFoundException | TypeNotPresentException e) {
      return false;
    } catch (LinkageError e) {
      // reflection wants every class that the owner's members mention, also optional ones that are not there: no proof
      // of anything
      return true;
    }
  }

  private static boolean hasField(Class<?> owner, ClassFile.Member member) {
    for (Class<?> type = owner; type != null; type = type.getSuperclass()) {
      for (Field field : type.getDeclaredFields()) {
        if (field.getName().equals(member.name()) && descriptor(field.getType()).equals(member.descriptor())) {
          return true;
        }
      }
      for (Class<?> implemented : type.getInterfaces()) {
        if (hasField(implemented, member)) {
          return true;
        }
      }
    }
    return false;
  }

  private static String descriptor(Class<?> type) {
    String text = MethodType.methodType(type).toMethodDescriptorString();
    return text.substring(text.indexOf(')') + 1);
  }

  /** With the return type, which reflection's own look-up leaves out and the JVM does not. */
  private static boolean hasMethod(Class<?> owner, String name, MethodType type) {
    for (Class<?> current = owner; current != null; current = current.getSuperclass()) {
      for (Method method : current.getDeclaredMethods()) {
        if (method.getName().equals(name) && method.getReturnType() == type.returnType()
            && Arrays.equals(method.getParameterTypes(), type.parameterArray())) {
          return true;
        }
      }
      for (Class<?> implemented : current.getInterfaces()) {
        if (hasMethod(implemented, name, type)) {
          return true;
        }
      }
    }
    return false;
  }
}
