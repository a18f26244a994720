package io.treadle.shim.check;

import java.io.DataInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;

/**
 * The constant pool of a class file: what the class refers to. Read by hand, since the shim brings no library but Py4J
 * (JVMS 4.4).
 */
final class ClassFile {
  private static final int MAGIC = 0xcafebabe;
  private static final int UTF8 = 1;
  private static final int INTEGER = 3;
  private static final int FLOAT = 4;
  private static final int LONG = 5;
  private static final int DOUBLE = 6;
  private static final int CLASS = 7;
  private static final int STRING = 8;
  private static final int FIELD = 9;
  private static final int METHOD = 10;
  private static final int INTERFACE_METHOD = 11;
  private static final int NAME_AND_TYPE = 12;
  private static final int METHOD_HANDLE = 15;
  private static final int METHOD_TYPE = 16;
  private static final int DYNAMIC = 17;
  private static final int INVOKE_DYNAMIC = 18;

  private final int majorVersion;
  private final int[] tags;
  private final int[] firsts;
  private final int[] seconds;
  private final String[] texts;

  private ClassFile(int majorVersion, int count) {
    this.majorVersion = majorVersion;
    this.tags = new int[count];
    this.firsts = new int[count];
    this.seconds = new int[count];
    this.texts = new String[count];
  }

  /** Reads as far as the end of the constant pool; leaves the stream open. */
  static ClassFile read(InputStream stream) throws IOException {
    DataInputStream in = new DataInputStream(stream);
    if (in.readInt() != MAGIC) {
      throw new IOException("no class file");
    }
    in.readUnsignedShort();
    ClassFile file = new ClassFile(in.readUnsignedShort(), in.readUnsignedShort());
    int index = 1;
    while (index < file.tags.length) {
      index += file.readConstant(in, index);
    }
    return file;
  }

  /** Reads one constant and answers how many indices it takes. */
  private int readConstant(DataInputStream in, int index) throws IOException {
    int tag = in.readUnsignedByte();
    tags[index] = tag;
    switch (tag) {
      case UTF8:
        texts[index] = in.readUTF();
        return 1;
      case INTEGER:
      case FLOAT:
        in.readInt();
        return 1;
      case LONG:
      case DOUBLE:
        in.readLong();
        return 2;
      case FIELD:
      case METHOD:
      case INTERFACE_METHOD:
      case NAME_AND_TYPE:
      case DYNAMIC:
      case INVOKE_DYNAMIC:
        firsts[index] = in.readUnsignedShort();
        seconds[index] = in.readUnsignedShort();
        return 1;
      case METHOD_HANDLE:
        in.readUnsignedByte();
        in.readUnsignedShort();
        return 1;
      case CLASS:
      case STRING:
      case METHOD_TYPE:
        firsts[index] = in.readUnsignedShort();
        return 1;
      default:
        // modules and packages have one index too, but are in no class of ours
        throw new IOException("a constant of the unknown kind " + tag);
    }
  }

  /** 52 is Java 8. */
  int majorVersion() {
    return majorVersion;
  }

  /** The classes referred to, arrays as their element type, with {@code /} between the parts of their names. */
  Set<String> classes() {
    Set<String> names = new TreeSet<>();
    for (int i = 1; i < tags.length; i++) {
      if (tags[i] == CLASS) {
        String name = texts[firsts[i]];
        if (name.startsWith("[")) {
          name = name.endsWith(";") ? name.substring(name.indexOf('L') + 1, name.length() - 1) : "";
        }
        if (!name.isEmpty()) {
          names.add(name);
        }
      }
    }
    return names;
  }

  /** The fields and methods referred to. */
  List<Member> members() {
    List<Member> members = new ArrayList<>();
    for (int i = 1; i < tags.length; i++) {
      if (tags[i] == FIELD || tags[i] == METHOD || tags[i] == INTERFACE_METHOD) {
        int nameAndType = seconds[i];
        members.add(new Member(texts[firsts[firsts[i]]], texts[firsts[nameAndType]], texts[seconds[nameAndType]],
            tags[i] == FIELD));
      }
    }
    return members;
  }

  /** A field or method of a class, as a class file names it. */
  static final class Member {
    private final String owner;
    private final String name;
    private final String descriptor;
    private final boolean field;

    Member(String owner, String name, String descriptor, boolean field) {
      this.owner = owner;
      this.name = name;
      this.descriptor = descriptor;
      this.field = field;
    }

    /** The class that it is looked up in, with {@code /} between the parts of its name. */
    String owner() {
      return owner;
    }

    String name() {
      return name;
    }

    String descriptor() {
      return descriptor;
    }

    boolean isField() {
      return field;
    }

    @Override
    public String toString() {
      return owner.replace('/', '.') + '.' + name + (field ? " " : "") + descriptor;
    }
  }
}
