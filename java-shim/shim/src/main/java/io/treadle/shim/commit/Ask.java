// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.server.scheduler.SchedulerRequestKey;

/** What asks for containers: a request key of an application attempt. Immutable. */
public final class Ask {
  final ApplicationAttemptId attempt;
  final SchedulerRequestKey key;

  /** The ask of an attempt under a key. */
  public Ask(ApplicationAttemptId attempt, SchedulerRequestKey key) {
    this.attempt = attempt;
    this.key = key;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof Ask && attempt.equals(((Ask) other).attempt) && key.equals(((Ask) other).key);
  }

  @Override
  public int hashCode() {
    return 31 * attempt.hashCode() + key.hashCode();
  }

  @Override
  public String toString() {
    return attempt + " at priority " + key.getPriority().getPriority();
  }
}
