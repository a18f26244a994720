package io.treadle.shim.engines;

/** Whether an engine is alive: two looks at a clock. Any thread. */
public interface Living {
  /** What {@code Ownership} calls the engine. */
  String name();

  /** Whether it holds its lease and may go on. */
  boolean held();

  /** Whether its last answer was one to commit, too. */
  boolean schedules();
}
