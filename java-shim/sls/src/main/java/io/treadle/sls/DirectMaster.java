// SPDX-License-Identifier: Apache-2.0
package io.treadle.sls;

import java.io.IOException;
import java.security.PrivilegedExceptionAction;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hadoop.security.token.Token;
import org.apache.hadoop.yarn.api.records.ReservationId;
import org.apache.hadoop.yarn.security.AMRMTokenIdentifier;
import org.apache.hadoop.yarn.sls.appmaster.AMSimulator;

/**
 * An application master that calls the ResourceManager with its attempt's rights and takes each answer where it comes,
 * instead of through SLS's queue of responses. It decides by itself when it ends: the runner's clock does not end it.
 */
abstract class DirectMaster extends AMSimulator {
  static final long NO_ALLOCATION_ID = -1;

  /** Calls the ResourceManager as this attempt. */
  final <T> T asAttempt(PrivilegedExceptionAction<T> action) throws IOException {
    UserGroupInformation attempt = UserGroupInformation.createRemoteUser(appAttemptId.toString());
    attempt.addTokenIdentifier(token().decodeIdentifier());
    return as(attempt, action);
  }

  /** The token of this attempt. */
  final Token<AMRMTokenIdentifier> token() {
    return rm.getRMContext().getRMApps().get(appId).getRMAppAttempt(appAttemptId).getAMRMToken();
  }

  static <T> T as(UserGroupInformation user, PrivilegedExceptionAction<T> action) throws IOException {
    try {
      return user.doAs(action);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IOException("interrupted as " + user.getUserName(), e);
    }
  }

  @Override
  public final void lastStep() {
    // the runner's clock does not end it
  }

  @Override
  protected final void processResponseQueue() {
    // answers are taken where they come
  }

  @Override
  public final void initReservation(ReservationId reservationId, long deadline, long now) {
    // there are no reservations
  }
}
