// SPDX-License-Identifier: Apache-2.0
package io.treadle.spark;

import io.treadle.plans.PlanListener;
import io.treadle.plans.PlanListener.Answer;
import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.List;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Reports the progress of stages to the plan listener, on a thread of its own. Each report has the complete state of
 * the stages that have changed, so that the next one repeats a lost one.
 */
final class StageAgent implements Runnable {
  /** Bytes of stages in one report, unless a single one is longer. */
  static final int REPORT_BYTES = 32 << 10;

  private static final Logger LOG = LoggerFactory.getLogger(StageAgent.class);
  private static final long PERIOD_MS = 5_000;

  /** Where an application's stages are reported to. */
  interface Connect {
    /** Returns the listener; null if this driver has no key. */
    PlanListener to(String application) throws IOException;
  }

  private final StageTable stages;
  private final Connect connect;
  private final Thread thread = new Thread(this, "treadle stages");
  private String application;
  private boolean ended;
  private boolean abandoned;
  /** Whether the listener still has the earlier reports. */
  private boolean known;

  StageAgent(StageTable stages, Connect connect) {
    this.stages = stages;
    this.connect = connect;
    thread.setDaemon(true);
  }

  /** Takes that an application has started. */
  synchronized void begin(String started) {
    if (application == null) {
      application = started;
      thread.start();
    }
  }

  /** Notes that the application has ended; waits until that was sent, or for a time. */
  void end(long waitMs) throws InterruptedException {
    synchronized (this) {
      ended = true;
      notifyAll();
    }
    if (waitMs > 0) {
      thread.join(waitMs);
    }
  }

  /** Stops sending counts. */
  synchronized void abandon() {
    abandoned = true;
    notifyAll();
  }

  @Override
  public void run() {
    try {
      PlanListener listener = connect.to(application);
      if (listener == null) {
        LOG.info("stages of {} are not reported to Treadle:"
            + " its driver has no token of an application master; one in the"
            + " cluster has (--deploy-mode cluster)", application);
        return;
      }
      boolean last = false;
      while (!last) {
        last = awaitEnd();
        if (isAbandoned()) {
          return;
        }
        String problem = report(listener, last);
        if (last) {
          LOG.info("stages of {} are {}", application, problem == null ? "reported to Treadle" : "not all reported to"
              + " Treadle: " + problem);
        }
      }
      if (stages.left() > 0) {
        LOG.info("{} had more stages than are counted", application);
      }
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
    } catch (Throwable problem) {
      LOG.warn("nothing more of {} is reported to Treadle", application, problem);
    }
  }

  private synchronized boolean awaitEnd() throws InterruptedException {
    if (!ended && !abandoned) {
      wait(PERIOD_MS);
    }
    return ended;
  }

  private synchronized boolean isAbandoned() {
    return abandoned;
  }

  /** Sends the changes; returns the error, null for none. */
  private String report(PlanListener listener, boolean last) throws IOException {
    try {
      Answer answer = reports(listener, last);
      if (answer == Answer.UNKNOWN) {
        // Another ResourceManager, or another engine of it: report from the start.
        known = false;
        stages.forgotten();
        answer = reports(listener, last);
      }
      return answer == Answer.OK ? null : "the plan listener answers " + answer;
    } catch (IOException problem) {
      LOG.debug("stages are reported later", problem);
      return problem.getMessage();
    }
  }

  private Answer reports(PlanListener listener, boolean last) throws IOException {
    List<StageTable.Row> rows = stages.news();
    int from = 0;
    while (from < rows.size() || last) {
      int to = from;
      for (int bytes = 0; to < rows.size()
          && (to == from || bytes + rows.get(to).bytes().length <= REPORT_BYTES); to++) {
        bytes += rows.get(to).bytes().length;
      }
      List<StageTable.Row> some = rows.subList(from, to);
      boolean whole = last && to == rows.size();
      Answer answer = listener.report(PlanListener.Subject.STAGES, report(some, !known, whole)).answer();
      if (answer != Answer.OK) {
        return answer;
      }
      known = true;
      stages.sent(some);
      from = to;
      if (whole) {
        break;
      }
    }
    return Answer.OK;
  }

  /** The bytes of a report (docs/tez-plugin.md). */
  static byte[] report(List<StageTable.Row> rows, boolean fromTheStart, boolean ended) throws IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    DataOutputStream out = new DataOutputStream(bytes);
    out.writeByte(fromTheStart ? 1 : 0);
    out.writeByte(ended ? 1 : 0);
    out.writeInt(rows.size());
    for (StageTable.Row row : rows) {
      out.write(row.bytes());
    }
    return bytes.toByteArray();
  }
}
