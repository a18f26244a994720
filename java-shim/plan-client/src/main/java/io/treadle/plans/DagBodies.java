// SPDX-License-Identifier: Apache-2.0
package io.treadle.plans;

import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Map;

/** Bodies of messages about a DAG (docs/tez-plugin.md has every byte). */
public final class DagBodies {
  /** Bytes of an ended task in a report. */
  public static final int ENDED_BYTES = 45;
  /** The most ended tasks of a report. */
  public static final int ENDED_MAX = 1_000;
  /** State of a DAG in a report: it runs. */
  public static final int RUNNING = 0;
  /** It has succeeded. */
  public static final int SUCCEEDED = 1;
  /** It has ended otherwise. */
  public static final int ENDED = 2;

  /** Outcome of a task: it has succeeded. */
  public static final int TASK_SUCCEEDED = 0;

  private DagBodies() {
  }

  /**
   * Writes a vertex into a request for a plan.
   *
   * @param tasks how many it has; -1 if that is not known
   * @param demand what a task asks for, by resource
   * @param parents by the parent's id: whether task i waits for the parent's task i alone
   */
  public static void writeVertex(DataOutputStream out, int id, String name, int tasks, Map<String, Long> demand,
      Map<Integer, Boolean> parents) throws IOException {
    out.writeInt(id);
    Texts.write(out, name);
    out.writeInt(tasks);
    out.writeInt(demand.size());
    for (Map.Entry<String, Long> amount : demand.entrySet()) {
      Texts.write(out, amount.getKey());
      out.writeLong(amount.getValue());
    }
    out.writeInt(parents.size());
    for (Map.Entry<Integer, Boolean> parent : parents.entrySet()) {
      out.writeInt(parent.getKey());
      out.writeByte(parent.getValue() ? 1 : 0);
    }
  }

  /**
   * Writes a task attempt that has ended into a report.
   *
   * @param id the numbers of its vertex, of its task within that, and of itself within the task
   * @param tookMs how long it ran; -1 if that is not known, as of the bytes that it read and its CPU time
   */
  public static void writeEnded(DataOutputStream out, int[] id, int outcome, long endedMs, long tookMs, long inputBytes,
      long cpuMs) throws IOException {
    for (int number : id) {
      out.writeInt(number);
    }
    out.writeByte(outcome);
    out.writeLong(endedMs);
    out.writeLong(tookMs);
    out.writeLong(inputBytes);
    out.writeLong(cpuMs);
  }

  /**
   * The largest of a vertex's three request priorities, as Tez has them but for the place.
   *
   * @param place in the order that is followed, from 0
   * @param vertices how many the DAG has
   */
  public static int low(int place, int vertices, int id) {
    return Math.toIntExact(3L * ((place + 1L) * vertices + id));
  }

  /**
   * Reads a plan: the ids of vertices, the one to be served first in front.
   *
   * @throws IOException if it is none
   */
  public static int[] order(byte[] body) throws IOException {
    ByteBuffer said = ByteBuffer.wrap(body);
    if (said.remaining() < Integer.BYTES) {
      throw new IOException("a plan of " + body.length + " bytes");
    }
    long count = said.getInt();
    if (count * Integer.BYTES != said.remaining()) {
      throw new IOException("a plan of " + body.length + " bytes for " + count + " vertices");
    }
    int[] ids = new int[(int) count];
    said.asIntBuffer().get(ids);
    return ids;
  }
}
