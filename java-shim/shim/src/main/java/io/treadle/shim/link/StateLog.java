package io.treadle.shim.link;

import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A line in the RM's log for each change of lease, policy and refusal, with its reason. An engine may change its mind
 * in every answer: after a number of lines there is one in ten seconds, which says how many were left out. The link
 * thread's.
 */
final class StateLog {
  private static final Logger LOG = LoggerFactory.getLogger(Link.class);
  private static final int LINES = 60;
  private static final long LINE_EVERY_NANOS = TimeUnit.SECONDS.toNanos(10);

  private final LongSupplier nanoClock;
  private int linesLeft = LINES;
  private long refilledNanos;
  private int leftOut;
  private String policy = "";
  private String refusal = "";
  private String lease = "nobody";
  private final Supplier<String> name;

  /** With a monotonic clock such as {@code System::nanoTime}, and the name of the engine, empty for the only one. */
  StateLog(LongSupplier nanoClock, Supplier<String> name) {
    this.nanoClock = nanoClock;
    this.name = name;
    this.refilledNanos = nanoClock.getAsLong();
  }

  /** What the engine is called in a sentence. */
  String engine() {
    return "Treadle's engine" + (name.get().isEmpty() ? "" : " " + name.get());
  }

  /** Who does something where the engine does not. */
  String whoElse(String does) {
    return (name.get().isEmpty() ? "the CapacityScheduler " : "another engine, if one is alive, or the CapacityScheduler ")
        + does;
  }

  /** The engine's policy. */
  void policy(String policyName) {
    if (!policyName.equals(policy)) {
      String whose = this.name.get().isEmpty() ? "Treadle's policy" : "The policy of " + engine();
      say(false, whose + " is " + policyName + (policy.isEmpty() ? "" : ", it was " + policy));
      policy = policyName;
    }
  }

  /** Why nothing is committed in mode enforce; null if nothing is against it. */
  void refusal(String reason) {
    String text = reason == null ? "" : reason;
    if (!text.equals(refusal)) {
      refusal = text;
      say(!text.isEmpty(), text.isEmpty() ? "Nothing is against Treadle's scheduling any more"
          : "Treadle does not schedule, the CapacityScheduler does: " + text);
    }
  }

  /** An engine holds the lease; it schedules, or is only observed. */
  void leaseHeld(boolean schedules) {
    lease(engine() + (schedules ? " holds the lease and schedules"
        : " holds the lease and is observed; the CapacityScheduler schedules"), false);
  }

  /** Nobody holds it any more. Says nothing if nobody did. */
  void leaseLost(String reason) {
    if (!"nobody".equals(lease)) {
      say(true, engine() + " has lost the lease, " + whoElse("schedules") + ": " + reason);
      lease = "nobody";
    }
  }

  private void lease(String now, boolean warn) {
    if (!now.equals(lease)) {
      lease = now;
      say(warn, now);
    }
  }

  private void say(boolean warn, String text) {
    long nanos = nanoClock.getAsLong();
    long lines = (nanos - refilledNanos) / LINE_EVERY_NANOS;
    refilledNanos += lines * LINE_EVERY_NANOS;
    linesLeft = (int) Math.min(LINES, linesLeft + lines);
    if (linesLeft == 0) {
      leftOut++;
      return;
    }
    linesLeft--;
    String more = leftOut == 0 ? "" : " (" + leftOut + " earlier changes were left out)";
    leftOut = 0;
    if (warn) {
      LOG.warn("{}{}", text, more);
    } else {
      LOG.info("{}{}", text, more);
    }
  }
}
