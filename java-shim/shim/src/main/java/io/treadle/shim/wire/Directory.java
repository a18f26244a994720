// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.wire;

import java.util.stream.IntStream;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.server.scheduler.SchedulerRequestKey;

/**
 * The meaning of a proposal's indices, which the frames since the last snapshot assigned; and the recipient of its
 * outcome. Used by the link thread only.
 */
public interface Directory {
  /** How many application indices were given out since the last snapshot. */
  int applications();

  /** How many node indices were given out since the last snapshot. */
  int nodes();

  /** The attempt behind an index in [0, applications()), or null if it has gone. */
  ApplicationAttemptId application(int index);

  /** The attempt of any number, or null if it is not an index or the attempt has gone. */
  default ApplicationAttemptId applicationOrNull(int number) {
    return number < 0 || number >= applications() ? null : application(number);
  }

  /** Whether the frames have all nodes and racks that the requests of an application name, rather than a part. */
  default boolean isWhole(int application) {
    return true;
  }

  /** How many request-key indices an application has been given. */
  int requestKeys(int application);

  /** The request key behind an index in [0, requestKeys(application)), or null if it has gone. */
  SchedulerRequestKey requestKey(int application, int key);

  /** The indices of those request keys of an application that may have requests. */
  default int[] askingKeys(int application) {
    return IntStream.range(0, requestKeys(application)).toArray();
  }

  /** The node behind an index in [0, nodes()), or null if it has gone. */
  NodeId node(int index);

  /**
   * When the frame was written that the engine decided on, {@code Time.monotonicNow()}, milliseconds; before an answer
   * the last one.
   */
  long baseMs();

  /**
   * The fate of a proposal; the engine's next frame has it.
   *
   * @param sequence the frame that the engine answered
   * @param position the proposal's place in the answer
   * @param fate committed, or why not
   */
  void fate(long sequence, int position, Fate fate);
}
