// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.link;

import io.treadle.shim.Log;
import io.treadle.shim.Printable;
import io.treadle.shim.Rate;
import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;

/**
 * What an engine has the RM's log say: a line for each change of lease, policy and refusal, with its reason, for each
 * failure, error and warning. An engine may say something else in every answer: after a number of lines there is one
 * in ten seconds, which says how many were left out. The link thread's.
 */
final class StateLog {
  private static final Log LOG = new Log(Link.class);
  private static final String ENGINE = "Treadle's engine";
  private static final int LINES = 20;
  private static final long LINE_EVERY_NANOS = TimeUnit.SECONDS.toNanos(10);
  private static final int TEXTS = 100;

  private final Rate lines;
  private final Set<String> texts = new HashSet<>();
  private int leftOut;
  private String failure = "";
  private String policy = "";
  private String refusal = "";
  private String lease = "nobody";

  /** With a monotonic clock such as {@code System::nanoTime}. */
  StateLog(LongSupplier nanoClock) {
    this.lines = new Rate(nanoClock, LINES, LINE_EVERY_NANOS);
  }

  /** The engine's policy. */
  void policy(String policyName) {
    if (!policyName.equals(policy)) {
      say(false, "Treadle's policy is " + policyName + (policy.isEmpty() ? "" : ", it was " + policy), null);
      policy = policyName;
    }
  }

  /** What is wrong with the engine, or by its own account; the same is a line once until the next refresh. */
  void text(String text) {
    if (texts.size() == TEXTS) {
      texts.clear();
    }
    if (!text.isEmpty() && texts.add(text)) {
      say(true, ENGINE + ": " + text, null);
    }
  }

  /** The configuration was refreshed: what the engine says from now on is news. */
  void refreshed() {
    texts.clear();
  }

  /** Why no decision comes, with its stack if that is of use, else null; the same is a line once. */
  void failed(String reason, Throwable stack) {
    if (!reason.equals(failure)) {
      failure = reason;
      say(true, "No decision by " + ENGINE + ", the CapacityScheduler carries on: " + reason, stack);
    }
  }

  /** Decisions have come for a while: a failure is news again. */
  void steady() {
    failure = "";
  }

  /** Why nothing is committed in mode enforce; null if nothing is against it. */
  void refusal(String reason) {
    String text = reason == null ? "" : reason;
    if (!text.equals(refusal)) {
      refusal = text;
      say(!text.isEmpty(), text.isEmpty() ? "Treadle can schedule again"
          : "Treadle does not schedule, the CapacityScheduler does: " + text, null);
    }
  }

  /** An engine holds the lease; it schedules, or is only observed. */
  void leaseHeld(boolean schedules) {
    String now = ENGINE + (schedules ? " holds the lease and schedules"
        : " holds the lease and is observed; the CapacityScheduler schedules");
    if (!now.equals(lease)) {
      lease = now;
      say(false, now, null);
    }
  }

  /** Nobody holds it any more. Says nothing if nobody did. */
  void leaseLost(String reason) {
    if (!"nobody".equals(lease)) {
      say(true, ENGINE + " has lost the lease, the CapacityScheduler schedules: " + reason, null);
      lease = "nobody";
    }
  }

  private void say(boolean warn, String text, Throwable stack) {
    if (!lines.take()) {
      leftOut++;
      return;
    }
    String more = leftOut == 0 ? "" : " (" + leftOut + " earlier lines were left out)";
    leftOut = 0;
    String line = Printable.brief(text) + more;
    if (warn) {
      LOG.warn("{}", line, stack);
    } else {
      LOG.info("{}", line);
    }
  }
}
