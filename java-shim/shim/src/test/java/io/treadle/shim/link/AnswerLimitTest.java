package io.treadle.shim.link;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class AnswerLimitTest {
  private static final int MOST = 4096;
  private static final long MS = 1_000_000;

  private final AnswerLimit limit = new AnswerLimit();

  @Test
  void quickCommitsRaiseItToWhatTheAdministratorAllows() {
    for (int answer = 0; answer < 30; answer++) {
      limit.committed(1000, 10 * MS);
    }

    assertEquals(MOST, limit.next(MOST));
    assertEquals(10, limit.next(10));
  }

  @Test
  void slowCommitsLowerItUntilAnAnswerTakesATenthOfASecond() {
    for (int answer = 0; answer < 30; answer++) {
      int size = limit.next(MOST);
      limit.committed(size, size * MS / 2);
    }

    assertTrue(Math.abs(limit.next(MOST) - 200) <= 2, "answers of " + limit.next(MOST));
  }

  @Test
  void thereIsAlwaysRoomForSome() {
    for (int answer = 0; answer < 30; answer++) {
      limit.committed(64, 60_000 * MS);
    }

    assertEquals(64, limit.next(MOST));
  }

  @Test
  void anAnswerOfAFewTellsNothing() {
    int before = limit.next(MOST);

    limit.committed(2, 500 * MS);

    assertEquals(before, limit.next(MOST));
  }
}
