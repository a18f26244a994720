package io.treadle.shim.compat;

import java.io.DataInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.lang.invoke.MethodType;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.ByteBuffer;
import java.util.function.BooleanSupplier;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.placement.CandidateNodeSet;

/**
 * Proves at start-up that the gate is the method through which the running RM places containers. It is package-private:
 * with our class in another class loader than Hadoop's, or in a Hadoop that calls something else, our method of the
 * same name would override nothing, and both schedulers would place containers.
 */
public final class GateCheck {
  private static final String GATE = "allocateContainersToNode";
  private static final int UTF8 = 1;
  private static final int METHOD = 10;
  /** Bytes of each kind of constant in a class file; 0 where there is no such kind, and for texts, which vary. */
  private static final int[] CONSTANT_BYTES = {0, 0, 0, 4, 4, 8, 8, 2, 2, 4, 4, 4, 4, 0, 0, 3, 2, 4, 4, 2, 2};
  private static final String RESULT = "org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CSAssignment";

  private GateCheck() {
  }

  /**
   * Checks that the stock scheduler has the gate, that it calls it, and that such a call reaches our override.
   *
   * @param scheduler an instance of ours
   * @param reached whether the override was called with no candidates since it was last asked
   * @return what is wrong, in words for an administrator, or null
   */
  public static String verdict(CapacityScheduler scheduler, BooleanSupplier reached) {
    try {
      Method gate = CapacityScheduler.class.getDeclaredMethod(GATE, CandidateNodeSet.class, boolean.class);
      int modifiers = gate.getModifiers();
      if (!gate.getReturnType().getName().equals(RESULT) || Modifier.isPrivate(modifiers)
          || Modifier.isStatic(modifiers)
          || Modifier.isFinal(modifiers)) {
        return unfit("its " + gate + " cannot be overridden as expected");
      }
      if (!isCalled(gate)) {
        return unfit("it never calls its " + gate);
      }
      reached.getAsBoolean();
      gate.setAccessible(true);
      Object answer = gate.invoke(scheduler, null, false);
      if (!reached.getAsBoolean() || answer != null) {
        return unfit("a call of its " + gate + " does not reach ours");
      }
      return null;
    } catch (InvocationTargetException e) {
      return unfit("a call of its " + GATE + " does not reach ours: " + e.getCause());
    } catch (ReflectiveOperationException | IOException | RuntimeException | LinkageError e) {
      return unfit(e.toString());
    }
  }

  private static String unfit(String what) {
    return "this Hadoop's CapacityScheduler is not one that Treadle can stand in for: " + what
        + ". Treadle's jar must be in the ResourceManager's own class path, such as share/hadoop/yarn/lib";
  }

  private static boolean isCalled(Method gate) throws IOException {
    try (InputStream in = CapacityScheduler.class.getResourceAsStream("CapacityScheduler.class")) {
      if (in == null) {
        throw new IOException("the class file of " + CapacityScheduler.class + " cannot be found");
      }
      return calls(in, CapacityScheduler.class.getName(), gate.getName(),
          MethodType.methodType(gate.getReturnType(), gate.getParameterTypes()).toMethodDescriptorString());
    }
  }

  /** Whether the constant pool of a class file (JVMS 4.4) refers to a method: names it other than to declare it. */
  static boolean calls(InputStream classFile, String owner, String name, String descriptor) throws IOException {
    DataInputStream in = new DataInputStream(classFile);
    in.readFully(new byte[8]);
    byte[] tags = new byte[in.readUnsignedShort()];
    String[] texts = new String[tags.length];
    ByteBuffer[] bodies = new ByteBuffer[tags.length];
    for (int i = 1; i < tags.length; i++) {
      int tag = in.readUnsignedByte();
      tags[i] = (byte) tag;
      if (tag == UTF8) {
        texts[i] = in.readUTF();
        continue;
      }
      int length = tag < CONSTANT_BYTES.length ? CONSTANT_BYTES[tag] : 0;
      if (length == 0) {
        throw new IOException("a constant of the unknown kind " + tag);
      }
      bodies[i] = ByteBuffer.allocate(length);
      in.readFully(bodies[i].array());
      i += length / 8; // those of eight bytes have two indices
    }
    for (int i = 1; i < tags.length; i++) {
      if (tags[i] == METHOD) {
        ByteBuffer nameAndType = bodies[bodies[i].getChar(2)];
        if (texts[bodies[bodies[i].getChar(0)].getChar(0)].replace('/', '.').equals(owner)
            && texts[nameAndType.getChar(0)].equals(name) && texts[nameAndType.getChar(2)].equals(descriptor)) {
          return true;
        }
      }
    }
    return false;
  }
}
