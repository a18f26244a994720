package io.treadle.shim.check;

import io.treadle.shim.check.ClassFile.Member;
import java.io.IOException;
import java.io.InputStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
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
    String owner = CapacityScheduler.class.getName().replace('.', '/');
    String descriptor = "(L" + CandidateNodeSet.class.getName().replace('.', '/') + ";Z)L" + RESULT.replace('.', '/')
        + ";";
    try (InputStream in = CapacityScheduler.class.getResourceAsStream("CapacityScheduler.class")) {
      if (in == null) {
        throw new IOException("the class file of " + CapacityScheduler.class + " cannot be found");
      }
      for (Member member : ClassFile.read(in).members()) {
        if (member.owner().equals(owner) && member.name().equals(gate.getName())
            && member.descriptor().equals(descriptor)) {
          return true;
        }
      }
    }
    return false;
  }
}
