// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.link;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class AnswerLimitTest {
  private static final int MOST = 4096;
  private static final long LEASE_MS = 2000;
  private static final long MS = 1_000_000;

  private final AnswerLimit limit = new AnswerLimit();

  private int next() {
    return limit.next(MOST, LEASE_MS);
  }

  private void commits(int answers, int size, long nanosEach) {
    for (int answer = 0; answer < answers; answer++) {
      limit.committed(size, size * nanosEach);
    }
  }

  private void exchanges(int answers, long nanos) {
    for (int answer = 0; answer < answers; answer++) {
      limit.answered(nanos);
    }
  }

  @Test
  void quickCommitsRaiseItToWhatTheAdministratorAllows() {
    commits(5, 1000, MS / 100);

    assertEquals(MOST, next());
    assertEquals(10, limit.next(10, LEASE_MS));
  }

  @Test
  void slowCommitsLowerItUntilAnAnswerTakesATenthOfASecond() {
    commits(5, 100, MS / 2);

    assertEquals(200, next());
  }

  @Test
  void oneSlowCommitAmongQuickOnesIsNoReason() {
    commits(4, 1000, MS / 10);
    commits(1, 1000, MS / 2);

    assertEquals(1000, next());
  }

  @Test
  void oneVerySlowCommitBoundsTheNextByHalfALease() {
    commits(4, 1000, MS / 10);
    commits(1, 100, 5 * MS);

    assertEquals(200, next());
    commits(5, 1000, MS / 10);
    assertEquals(1000, next());
  }

  @Test
  void answersMayTakeAsLongToCommitAsToGetButAQuarterOfTheLeaseAtMost() {
    commits(5, 1000, MS / 2);
    exchanges(5, 300 * MS);
    assertEquals(600, next());

    exchanges(5, 1500 * MS);
    assertEquals(1000, next());

    exchanges(5, MS);
    assertEquals(200, next());
  }

  @Test
  void thereIsAlwaysRoomForSome() {
    commits(5, 64, 60_000 * MS);

    assertEquals(64, next());
  }

  @Test
  void anAnswerOfAFewTellsNothing() {
    int before = next();

    commits(5, 2, 500 * MS);

    assertEquals(before, next());
    assertTrue(before >= 500, "a first guess of " + before);
  }
}
