// SPDX-License-Identifier: Apache-2.0
package io.treadle.stock;

import net.bytebuddy.asm.Advice;
import org.apache.hadoop.conf.Configuration;

/**
 * Code woven into {@code ResourceManager.createScheduler()}: while it runs, the configuration names our class, or the
 * subclass in the system property {@code treadle.stock.scheduler}. The code is copied into that method, so it must not
 * call Treadle's private members.
 */
public final class SchedulerAdvice {
  private SchedulerAdvice() {
  }

  /** Before the scheduler is made; returns the configured class, null if it stays. */
  @Advice.OnMethodEnter
  public static String enter(@Advice.FieldValue("conf") Configuration conf) {
    String stock = "org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler";
    String asked = conf.get("yarn.resourcemanager.scheduler.class", stock);
    if (!asked.equals(stock)) {
      return null;
    }
    String ours = System.getProperty("treadle.stock.scheduler", "");
    conf.set("yarn.resourcemanager.scheduler.class", ours.isEmpty()
        ? "org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.TreadleScheduler" : ours);
    if (ours.isEmpty() && conf.get("yarn.scheduler.treadle.mode") == null) {
      conf.set("yarn.scheduler.treadle.mode", "off");
    }
    return asked;
  }

  /** After the scheduler was made, or not. */
  @Advice.OnMethodExit(onThrowable = Throwable.class)
  public static void exit(@Advice.FieldValue("conf") Configuration conf, @Advice.Enter String asked) {
    if (asked != null) {
      conf.set("yarn.resourcemanager.scheduler.class", asked);
    }
  }
}
