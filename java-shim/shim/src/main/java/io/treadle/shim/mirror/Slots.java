package io.treadle.shim.mirror;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;

/**
 * Indices of containers that are alive. One that is given back is given out again from the next frame on, so that
 * within a frame it means one container.
 */
final class Slots {
  private final Deque<Integer> free = new ArrayDeque<>();
  private final List<Integer> givenBack = new ArrayList<>();
  private int size;

  void reset() {
    free.clear();
    givenBack.clear();
    size = 0;
  }

  /** Begins a frame. */
  void begin() {
    free.addAll(givenBack);
    givenBack.clear();
  }

  int take() {
    return free.isEmpty() ? size++ : free.pop();
  }

  void giveBack(int slot) {
    givenBack.add(slot);
  }
}
