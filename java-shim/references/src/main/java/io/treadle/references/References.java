// SPDX-License-Identifier: Apache-2.0
package io.treadle.references;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassVisitor;
import org.objectweb.asm.ConstantDynamic;
import org.objectweb.asm.FieldVisitor;
import org.objectweb.asm.Handle;
import org.objectweb.asm.Label;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.Type;

/** Everything that one class file refers to in Hadoop. */
public final class References extends ClassVisitor {
  private static final String HADOOP = "org/apache/hadoop/";
  /** Ours, in Hadoop's package. */
  private static final List<String> OURS = Arrays.asList(
      "org/apache/hadoop/yarn/server/resourcemanager/scheduler/capacity/TreadleScheduler",
      "org/apache/hadoop/yarn/server/resourcemanager/scheduler/capacity/GateProbe");

  /** A member of a class of Hadoop's. */
  public static final class Member {
    private final String owner;
    private final String name;
    private final String descriptor;

    Member(String owner, String name, String descriptor) {
      this.owner = owner;
      this.name = name;
      this.descriptor = descriptor;
    }

    /** The class that it is looked up in, with {@code /} between the parts of its name. */
    public String owner() {
      return owner;
    }

    public String name() {
      return name;
    }

    /** Begins with a parenthesis for a method. */
    public String descriptor() {
      return descriptor;
    }

    /** As {@link References#key}. */
    public String key() {
      return References.key(name, descriptor);
    }

    @Override
    public boolean equals(Object other) {
      return other instanceof Member && toString().equals(other.toString());
    }

    @Override
    public int hashCode() {
      return toString().hashCode();
    }

    @Override
    public String toString() {
      return owner + ' ' + key();
    }
  }

  private final Set<String> classes = new LinkedHashSet<>();
  private final Set<Member> members = new LinkedHashSet<>();
  private final Set<Member> direct = new LinkedHashSet<>();
  private final Set<String> declared = new LinkedHashSet<>();
  private final List<String> overridable = new ArrayList<>();
  private String name;
  private String superName;
  private int version;
  private boolean switchMap;

  private References() {
    super(Opcodes.ASM9);
  }

  /** A member's name and descriptor as one text. */
  public static String key(String name, String descriptor) {
    return name + ' ' + descriptor;
  }

  /** Reads a class file. */
  public static References of(ClassReader reader) {
    References references = new References();
    reader.accept(references, 0);
    if (references.switchMap) {
      // javac's table of an enum's constants: each constant that is missing is caught and skipped
      references.members.removeIf(member -> !member.descriptor.startsWith("("));
    }
    return references;
  }

  /** The class, with {@code /} between the parts of its name, as all names here. */
  public String name() {
    return name;
  }

  public String superName() {
    return superName;
  }

  /** Version of the class file: 52 is Java 8. */
  public int version() {
    return version & 0xffff;
  }

  /** Classes of Hadoop's. */
  public Set<String> classes() {
    return classes;
  }

  /** Members of classes of Hadoop's; of a class that extends one also what may be inherited from it. */
  public Set<Member> members() {
    return members;
  }

  /** Whether the class itself declares such a member. */
  private boolean declares(Member member) {
    return declared.contains(member.key());
  }

  /** Whether the class declares a member itself and means only its own: it never calls that of its superclass. */
  public boolean isOwn(Member member) {
    return member.owner.equals(superName) && declares(member) && !direct.contains(member);
  }

  /** Keys of its own methods that may override one of a superclass. */
  public List<String> overridable() {
    return overridable;
  }

  private void type(Type type) {
    if (type.getSort() == Type.ARRAY) {
      type(type.getElementType());
    } else if (type.getSort() == Type.OBJECT) {
      internal(type.getInternalName());
    } else if (type.getSort() == Type.METHOD) {
      for (Type argument : type.getArgumentTypes()) {
        type(argument);
      }
      type(type.getReturnType());
    }
  }

  private void internal(String internalName) {
    if (internalName != null && internalName.startsWith("[")) {
      type(Type.getType(internalName));
    } else if (internalName != null && isHadoops(internalName)) {
      classes.add(internalName);
    }
  }

  private void member(String owner, String memberName, String descriptor) {
    internal(owner);
    type(Type.getType(descriptor));
    if (isHadoops(owner)) {
      Member member = new Member(owner, memberName, descriptor);
      members.add(member);
      direct.add(member);
    } else if (owner.equals(name) && superName.startsWith(HADOOP)) {
      // of the class itself, or inherited
      members.add(new Member(superName, memberName, descriptor));
    }
  }

  private void constant(Object value) {
    if (value instanceof Type) {
      type((Type) value);
    } else if (value instanceof Handle) {
      Handle handle = (Handle) value;
      member(handle.getOwner(), handle.getName(), handle.getDesc());
    } else if (value instanceof ConstantDynamic) {
      ConstantDynamic dynamic = (ConstantDynamic) value;
      constant(dynamic.getBootstrapMethod());
      for (int i = 0; i < dynamic.getBootstrapMethodArgumentCount(); i++) {
        constant(dynamic.getBootstrapMethodArgument(i));
      }
    }
  }

  @Override
  public void visit(int classVersion, int access, String className, String signature, String parent,
      String[] interfaces) {
    version = classVersion;
    name = className;
    superName = parent;
    internal(parent);
    for (String implemented : interfaces) {
      internal(implemented);
    }
  }

  @Override
  public FieldVisitor visitField(int access, String fieldName, String descriptor, String signature, Object value) {
    type(Type.getType(descriptor));
    declared.add(key(fieldName, descriptor));
    switchMap |= fieldName.startsWith("$SwitchMap$");
    return null;
  }

  @Override
  public MethodVisitor visitMethod(int access, String methodName, String descriptor, String signature,
      String[] thrown) {
    type(Type.getType(descriptor));
    declared.add(key(methodName, descriptor));
    if ((access & (Opcodes.ACC_STATIC | Opcodes.ACC_PRIVATE)) == 0 && !methodName.startsWith("<")) {
      overridable.add(key(methodName, descriptor));
    }
    for (String exception : thrown == null ? new String[0] : thrown) {
      internal(exception);
    }
    return new Code();
  }

  private final class Code extends MethodVisitor {
    Code() {
      super(Opcodes.ASM9);
    }

    @Override
    public void visitTypeInsn(int opcode, String type) {
      internal(type);
    }

    @Override
    public void visitFieldInsn(int opcode, String owner, String fieldName, String descriptor) {
      member(owner, fieldName, descriptor);
    }

    @Override
    public void visitMethodInsn(int opcode, String owner, String methodName, String descriptor, boolean isInterface) {
      if (!owner.startsWith("[")) {
        member(owner, methodName, descriptor);
      }
    }

    @Override
    public void visitInvokeDynamicInsn(String dynamicName, String descriptor, Handle bootstrap, Object... arguments) {
      type(Type.getType(descriptor));
      for (Object argument : arguments) {
        constant(argument);
      }
    }

    @Override
    public void visitLdcInsn(Object value) {
      constant(value);
    }

    @Override
    public void visitMultiANewArrayInsn(String descriptor, int dimensions) {
      type(Type.getType(descriptor));
    }

    @Override
    public void visitTryCatchBlock(Label start, Label end, Label handler, String type) {
      internal(type);
    }
  }

  private static boolean isHadoops(String name) {
    return name.startsWith(HADOOP) && OURS.stream().noneMatch(name::startsWith);
  }
}
