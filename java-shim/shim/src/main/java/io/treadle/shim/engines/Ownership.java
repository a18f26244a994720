package io.treadle.shim.engines;

import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.yarn.api.records.ApplicationId;

/**
 * Who serves whose applications from one change to the next. What an application's home is, the engine that serves it
 * while all live, is found once and kept; where its home is dead somebody else stands in, for all of that home's.
 */
final class Ownership {
  final Roster roster;
  final List<Living> engines;
  /** Homes of applications; kept from one ownership to the next of the same roster. */
  final Map<ApplicationId, Home> homes;
  /** By home: the place of the engine that serves its applications. */
  final int[] serving;
  /** The same as names: they mean the same engines whatever the roster. */
  final String[] names;
  /** A bit for each engine that held its lease. */
  final int held;
  /** A bit for each engine that serves anything. */
  final int targets;
  /** Raised with each change. */
  final int generation;

  Ownership(Roster roster, List<Living> engines, Map<ApplicationId, Home> homes, int[] serving, int held,
      int generation) {
    this.roster = roster;
    this.engines = engines;
    this.homes = homes == null ? new ConcurrentHashMap<>() : homes;
    this.serving = serving;
    this.held = held;
    this.generation = generation;
    this.names = Arrays.stream(serving).mapToObj(engine -> engines.get(engine).name()).toArray(String[]::new);
    this.targets = Arrays.stream(serving).map(engine -> 1 << engine).reduce(0, (a, b) -> a | b);
  }

  boolean several() {
    return engines.size() > 1;
  }

  /** An application's home, by its place in the roster. */
  static final class Home {
    final int engine;
    /** Whether it stays, whatever the application asks for from now on. */
    final boolean fixed;
    /** The engine that has given the application up, -1 for none. */
    final int before;

    Home(int engine, boolean fixed) {
      this(engine, fixed, -1);
    }

    Home(int engine, boolean fixed, int before) {
      this.engine = engine;
      this.fixed = fixed;
      this.before = before;
    }
  }
}
