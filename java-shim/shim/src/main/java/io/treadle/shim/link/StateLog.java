// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.link;

import io.treadle.shim.Log;
import io.treadle.shim.Printable;
import io.treadle.shim.Rate;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Objects;
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
  /** The latest line of each kind that is only logged when it changes. */
  private final Map<String, String> latest = new HashMap<>();

  /** With a monotonic clock such as {@code System::nanoTime}. */
  StateLog(LongSupplier nanoClock) {
    this.lines = new Rate(nanoClock, LINES, LINE_EVERY_NANOS);
  }

  /** The engine's policy. */
  void policy(String name) {
    String before = Objects.toString(latest.put("policy", name), "");
    if (!name.equals(before)) {
      say(false, "Treadle's policy is " + name + (before.isEmpty() ? "" : ", it was " + before), null);
    }
  }

  /** Logs a problem with the engine, or one that it reports; a repeated text is logged once until the next refresh. */
  void text(String text) {
    if (texts.size() == TEXTS) {
      texts.clear();
    }
    if (!text.isEmpty() && texts.add(text)) {
      say(true, ENGINE + ": " + text, null);
    }
  }

  /** The configuration was refreshed: later texts of the engine are new. */
  void refreshed() {
    texts.clear();
  }

  /** Why no decision comes, with its stack if that is of use, else null; the same is a line once. */
  void failed(String reason, Throwable stack) {
    if (!reason.equals(latest.put("failure", reason))) {
      say(true, "No decision by " + ENGINE + ", the CapacityScheduler carries on: " + reason, stack);
    }
  }

  /** Decisions have come for a while: a failure is news again. */
  void steady() {
    latest.remove("failure");
  }

  /** Why nothing is committed in mode enforce; null if nothing is against it. */
  void refusal(String reason) {
    if (!Objects.equals(reason, latest.put("refusal", reason))) {
      say(reason != null, reason == null ? "Treadle can schedule again"
          : "Treadle does not schedule, the CapacityScheduler does: " + reason, null);
    }
  }

  /** An engine holds the lease; it schedules, or is only observed. */
  void leaseHeld(boolean schedules) {
    String now = ENGINE + (schedules ? " holds the lease and schedules"
        : " holds the lease and is observed; the CapacityScheduler schedules");
    if (!now.equals(latest.put("lease", now))) {
      say(false, now, null);
    }
  }

  /** The lease has no holder any more. Logs nothing if it had none. */
  void leaseLost(String reason) {
    if (latest.remove("lease") != null) {
      say(true, ENGINE + " has lost the lease, the CapacityScheduler schedules: " + reason, null);
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
