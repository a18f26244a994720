package io.treadle.shim.engines;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.treadle.shim.SchedulerPort;
import io.treadle.shim.engines.Ownership.Home;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;

/**
 * Which engine serves an application. Each has one owner at any time: its home while that is alive, else another that
 * is. No thread watches: each query looks at the leases, and finds those that have run out or come back.
 */
public final class Owners {
  /** How long an engine that was dead must be alive before its applications return to it. */
  static final long STEADY_NANOS = TimeUnit.SECONDS.toNanos(10);
  private static final int HOMES_SPARE = 1024;
  private static final int SHOWN_MAX = 10_000;

  private final SchedulerPort port;
  private final LongSupplier nanoClock;
  private final Runnable onChange;
  private final Consumer<ApplicationId> onMove;
  private volatile Ownership now;
  /** When the next engine that came back has lived long enough, if {@link #returning}. */
  private volatile long nextNanos;
  private volatile boolean returning;
  private final long[] heldSince = new long[Roster.ENGINES_MAX];
  private final boolean[] died = new boolean[Roster.ENGINES_MAX];

  /**
   * Owners of nothing until there is a {@link #roster}.
   *
   * @param onChange called when somebody else serves some applications; must return at once
   * @param onMove called when an application has another home; must return at once
   */
  public Owners(SchedulerPort port, LongSupplier nanoClock, Runnable onChange, Consumer<ApplicationId> onMove) {
    this.port = port;
    this.nanoClock = nanoClock;
    this.onChange = onChange;
    this.onMove = onMove;
    this.now = alone(null, -1);
  }

  private static Ownership alone(Living only, int generation) {
    List<Living> engines = only == null ? Collections.emptyList() : Collections.singletonList(only);
    return new Ownership(Roster.NONE, engines, Collections.emptyMap(), new int[engines.size()], 0, generation);
  }

  /** Another roster, and its engines in its order; of none only the first. All homes are found anew. */
  public void roster(Roster roster, List<Living> engines) {
    synchronized (this) {
      int generation = now.generation + 1;
      if (engines.size() == 1) {
        returning = false;
        now = alone(engines.get(0), generation);
      } else {
        for (int i = 0; i < engines.size(); i++) {
          heldSince[i] = nanoClock.getAsLong();
          died[i] = false;
        }
        now = new Ownership(roster, engines, null, new int[engines.size()], 0, generation);
        settle();
      }
    }
    onChange.run();
  }

  /** Who serves what, as of this instant. */
  private Ownership look() {
    Ownership seen = now;
    if (!seen.several() || held(seen) == seen.held && !(returning && nanoClock.getAsLong() - nextNanos >= 0)) {
      return seen;
    }
    boolean changed;
    synchronized (this) {
      int before = now.generation;
      settle();
      changed = now.generation != before;
    }
    if (changed) {
      onChange.run();
    }
    return now;
  }

  private static int held(Ownership ownership) {
    int held = 0;
    for (int i = 0; i < ownership.engines.size(); i++) {
      held |= ownership.engines.get(i).held() ? 1 << i : 0;
    }
    return held;
  }

  /** Finds out which engines are alive and which serve for others. With the monitor held. */
  private void settle() {
    Ownership before = now;
    long nanos = nanoClock.getAsLong();
    int held = held(before);
    int settled = 0;
    returning = false;
    for (int i = 0; i < before.engines.size(); i++) {
      boolean holds = (held & 1 << i) != 0;
      boolean heldBefore = (before.held & 1 << i) != 0;
      died[i] |= heldBefore && !holds;
      heldSince[i] = holds && heldBefore ? heldSince[i] : nanos;
      if (holds && (!died[i] || nanos - heldSince[i] >= STEADY_NANOS)) {
        died[i] = false;
        settled |= 1 << i;
      } else if (holds) {
        long steady = heldSince[i] + STEADY_NANOS;
        nextNanos = returning && nextNanos - steady < 0 ? nextNanos : steady;
        returning = true;
      }
    }
    if (settled == 0) {
      // nobody has stood in for them meanwhile
      settled = held;
      returning = false;
      for (int i = 0; i < before.engines.size(); i++) {
        died[i] &= (held & 1 << i) == 0;
      }
    }
    int[] serving = new int[before.engines.size()];
    boolean same = held == before.held;
    for (int home = 0; home < serving.length; home++) {
      serving[home] = server(before.roster.order(home), settled);
      same &= serving[home] == before.serving[home];
    }
    if (!same) {
      boolean moved = !Arrays.equals(serving, before.serving);
      now = new Ownership(before.roster, before.engines, before.homes, serving, held,
          before.generation + (moved ? 1 : 0));
    }
  }

  private static int server(List<Integer> order, int living) {
    for (int engine : order) {
      if ((living & 1 << engine) != 0) {
        return engine;
      }
    }
    return order.get(0);
  }

  /** Whether engines schedule, and each application's owner does: the stock scheduler must not. */
  public boolean allSchedule() {
    Ownership seen = look();
    for (int i = 0; i < seen.engines.size(); i++) {
      if ((seen.targets & 1 << i) != 0 && !seen.engines.get(i).schedules()) {
        return false;
      }
    }
    return true;
  }

  /** Whether there is more than one engine. */
  public boolean several() {
    return now.several();
  }

  /** Whether another engine is alive, to which its applications could go. */
  public boolean othersLive(String engine) {
    Ownership seen = look();
    return seen.several() && seen.engines.stream().anyMatch(each -> !each.name().equals(engine) && each.held());
  }

  /** Raised whenever another engine serves some application, except for those reported to {@code onMove}. */
  public int generation() {
    return look().generation;
  }

  /** Whether an engine serves an application. Takes none of the scheduler's locks. */
  public boolean serves(String engine, FiCaSchedulerApp app) {
    Ownership seen = now;
    if (!seen.several()) {
      return true;
    }
    ApplicationId id = app.getApplicationId();
    Home home = seen.homes.get(id);
    if (home == null || !home.fixed && Facts.asks(app)) {
      home = find(seen, id, app);
    }
    return seen.names[home.engine].equals(engine);
  }

  private Home find(Ownership seen, ApplicationId id, FiCaSchedulerApp app) {
    Map<ApplicationId, Home> homes = seen.homes;
    int live = port.scheduler().getSchedulerApplications().size();
    if (homes.size() > 2 * live + HOMES_SPARE) {
      homes.keySet().retainAll(port.scheduler().getSchedulerApplications().keySet());
    }
    Home before = homes.get(id);
    Home found = homes.compute(id, (key, known) -> {
      boolean fixed = !seen.roster.looksAtTasks() || Facts.asks(app);
      return known != null && (known.fixed || !fixed) ? known
          : new Home(seen.roster.home(Facts.of(app, port.rmContext())), fixed);
    });
    if (before != null && before.engine != found.engine) {
      onMove.accept(id);
    }
    return found;
  }

  /**
   * An engine gives an application up: the next one alive in the order of those that stand in serves it from now
   * on, until the roster changes. Once for an application; not while no other is alive.
   *
   * @return the engine that serves it now; null if nothing has changed
   */
  public String giveUp(String engine, FiCaSchedulerApp app) {
    if (!several() || !serves(engine, app)) {
      return null;
    }
    Ownership seen = look();
    ApplicationId id = app.getApplicationId();
    int held = held(seen);
    Home moved = seen.homes.computeIfPresent(id, (key, home) -> {
      int next = home.before >= 0 ? -1 : seen.roster.order(home.engine).stream()
          .filter(each -> (held & 1 << each) != 0 && !seen.engines.get(each).name().equals(engine)).findFirst().orElse(-1);
      return next < 0 ? home : new Home(next, true, home.engine);
    });
    if (moved == null || moved.before < 0 || seen.names[moved.engine].equals(engine)) {
      return null;
    }
    onMove.accept(id);
    return seen.names[moved.engine];
  }

  /** The roster, which engines are alive, and the owners of known applications, as JSON; of at most 10,000 applications. */
  public String json() {
    Ownership seen = look();
    ObjectNode json = JsonNodeFactory.instance.objectNode();
    ObjectNode engines = json.putObject("engines");
    int[] applications = new int[seen.engines.size()];
    ObjectNode owners = JsonNodeFactory.instance.objectNode();
    for (Map.Entry<ApplicationId, Home> each : seen.homes.entrySet()) {
      if (!port.scheduler().getSchedulerApplications().containsKey(each.getKey())) {
        continue;
      }
      int home = each.getValue().engine;
      applications[seen.serving[home]]++;
      if (owners.size() < SHOWN_MAX) {
        int before = each.getValue().before;
        owners.putArray(each.getKey().toString()).add(seen.engines.get(before < 0 ? home : before).name())
            .add(seen.names[home]).add(before < 0 ? "" : "given up");
      }
    }
    for (int i = 0; i < seen.engines.size() && seen.several(); i++) {
      engines.putObject(seen.engines.get(i).name()).put("entry", seen.roster.engines.get(i).entry)
          .put("lives", (seen.held & 1 << i) != 0).put("served_by", seen.names[i]).put("applications", applications[i]);
    }
    json.set("applications", owners);
    return json.toString();
  }
}
