package io.treadle.shim.engines;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.UUID;

/**
 * The engines of a cluster, in order. The first whose selector matches serves an application; of copies it is the one
 * with the application's number modulo their count. The first engine is the one whose sidecar says the roster.
 * Immutable.
 */
public final class Roster {
  /** The most engines on one cluster, copies counted. */
  public static final int ENGINES_MAX = 8;
  /** One engine, which serves everything. */
  public static final Roster NONE = new Roster(Collections.emptyList(), "");

  /** The engines, empty if there is one only. */
  public final List<RosterEntry> engines;

  /** The same for the same text. */
  private final UUID hash;

  private Roster(List<RosterEntry> engines, String text) {
    this.engines = Collections.unmodifiableList(engines);
    hash = UUID.nameUUIDFromBytes(text.getBytes(StandardCharsets.UTF_8));
  }

  /**
   * Reads what an engine's status says under {@code engines}.
   *
   * @param said an array; null, missing or empty for one engine
   * @throws IllegalArgumentException if it cannot be used, and why
   */
  public static Roster parse(JsonNode said) {
    if (said == null || said.isMissingNode() || said.isNull() || said.isArray() && said.size() == 0) {
      return NONE;
    }
    if (!said.isArray() || said.size() > ENGINES_MAX) {
      throw new IllegalArgumentException(said.isArray() ? said.size() + " engines; at most " + ENGINES_MAX
          + " may be on one cluster" : "'engines' is no list");
    }
    List<RosterEntry> engines = new ArrayList<>();
    Set<String> names = new HashSet<>();
    for (JsonNode each : said) {
      RosterEntry engine = new RosterEntry(each);
      if (!names.add(engine.name)) {
        throw new IllegalArgumentException("two engines are called " + engine.name);
      }
      engines.add(engine);
    }
    return new Roster(engines, said.toString());
  }

  /** Whether another roster was read from the same text. */
  public boolean isSame(Roster other) {
    return hash.equals(other.hash);
  }

  /** Whether the number of an application's tasks matters to any selector. */
  boolean looksAtTasks() {
    return engines.stream().anyMatch(engine -> engine.tasksMin > 0 || engine.tasksMax > 0);
  }

  /** The engine, by its place, that serves an application while all live. The last takes what no other does. */
  int home(Facts facts) {
    for (int i = 0; i < engines.size(); i++) {
      RosterEntry engine = engines.get(i);
      if (engine.matches(facts) && Math.floorMod(facts.id, engine.copies) == engine.copy) {
        return i;
      }
    }
    return engines.size() - 1;
  }

  /**
   * Who serves the applications of an engine, by its place: itself, then its fallback, copies of that from its own
   * number on, then the others in order.
   *
   * @param home the engine's place
   */
  List<Integer> order(int home) {
    Set<Integer> order = new LinkedHashSet<>();
    order.add(home);
    List<Integer> copies = new ArrayList<>();
    for (int i = 0; i < engines.size(); i++) {
      if (engines.get(i).entry.equals(engines.get(home).fallback)) {
        copies.add(i);
      }
    }
    if (!copies.isEmpty()) {
      Collections.rotate(copies, -(engines.get(home).copy % copies.size()));
    }
    order.addAll(copies);
    for (int i = 0; i < engines.size(); i++) {
      order.add(i);
    }
    return new ArrayList<>(order);
  }
}
