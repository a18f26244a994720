package io.treadle.shim;

import io.treadle.shim.commit.AskLocks;
import io.treadle.shim.commit.Committer;
import io.treadle.shim.config.Mode;
import io.treadle.shim.config.ShimConfig;
import io.treadle.shim.engines.NodeCommits;
import io.treadle.shim.engines.Owners;
import io.treadle.shim.engines.Roster;
import io.treadle.shim.engines.RosterEntry;
import io.treadle.shim.link.EngineSource;
import io.treadle.shim.link.LinkSettings;
import io.treadle.shim.metrics.MetricsExport;
import io.treadle.shim.metrics.ShimMetrics;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.BiFunction;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import org.apache.hadoop.yarn.api.records.NodeId;

/**
 * The engines of one scheduler. The first is always there. Its status names the others, which are started, and ended when
 * it names them no longer: once for each configuration, so that no sidecar has the RM start process after process. The
 * monitor is for start, stop, refresh and another roster; nobody who holds it waits for a link.
 */
final class Engines {
  private static final Log LOG = new Log(Engines.class);

  private final EngineHandle.Common common;
  private final Owners owners;
  private final EngineHandle first;
  private final BiFunction<ShimConfig, EngineHandle, EngineSource> sources;
  private final Predicate<EngineHandle> mayCommit;
  private final BooleanSupplier enginesSchedule;
  private final MetricsExport export;
  /** In the roster's order, the first engine in front. */
  private volatile List<EngineHandle> all;
  private final List<EngineHandle> ending = new ArrayList<>();
  private Roster roster = Roster.NONE;
  /** The number of the configuration that it was taken with. */
  private int configuration = -1;
  private String thread;
  private LinkSettings settings;
  private long heartbeatMs;
  private int made;
  /** Whether an engine waits for the end of another of its name. */
  private volatile boolean waits;

  /**
   * The first engine, without a link.
   *
   * @param sources where an engine comes from
   * @param mayCommit whether an engine's proposals may be committed now
   * @param enginesSchedule whether engines schedule, all together
   */
  Engines(EngineHandle.Common common, LinkSettings settings, BiFunction<ShimConfig, EngineHandle, EngineSource> sources,
      Predicate<EngineHandle> mayCommit, BooleanSupplier enginesSchedule) {
    this.enginesSchedule = enginesSchedule;
    this.common = common;
    this.settings = settings;
    this.sources = sources;
    this.mayCommit = mayCommit;
    owners = new Owners(common.port, System::nanoTime, this::signal, common.journal::applicationChanged);
    first = made("", this::said);
    all = Collections.singletonList(first);
    owners.roster(Roster.NONE, new ArrayList<>(all));
    common.journal.onMark(this::signal);
    export = new MetricsExport(first.metrics, common.upkeep.observer()::json, common.upkeep.observer());
  }

  /** The first engine. */
  EngineHandle first() {
    return first;
  }

  /** Who serves what. */
  Owners owners() {
    return owners;
  }

  /** What is counted of an engine; null if there is none of this name. */
  ShimMetrics metrics(String name) {
    return all.stream().filter(engine -> engine.name().equals(name)).map(engine -> engine.metrics).findFirst()
        .orElse(null);
  }

  /** What keeps AMs from changing their asks while a transaction is committed. */
  AskLocks asks() {
    return common.asks;
  }

  /** Shows and hides the metrics of all. */
  MetricsExport export() {
    return export;
  }

  private void signal() {
    List<EngineHandle> now = all;
    if (now != null) {
      now.forEach(EngineHandle::signal);
    }
  }

  /** Has something done for each engine. Any thread. */
  void each(Consumer<EngineHandle> done) {
    all.forEach(done);
  }

  /** Something was committed on a node by whomever the calling thread commits for. Any thread. */
  void committed(NodeId node) {
    if (owners.several()) {
      common.nodeCommits.committed(node, Committer.committing());
    }
  }

  /** Whether the idle guard of an engine lets the stock scheduler place. Any thread. */
  boolean roundOpen() {
    List<EngineHandle> now = all;
    for (int i = 0; i < now.size(); i++) {
      if (now.get(i).pipeline.guard().roundOpen()) {
        return true;
      }
    }
    return false;
  }

  /** Starts the links, or gives them other settings. */
  synchronized void start(String name, LinkSettings now) {
    settings = now;
    thread = name;
    each(engine -> engine.settings(now));
    startLinks();
  }

  /** Gives links that run other settings: those of mode {@code off} hang up. */
  synchronized void settings(LinkSettings now) {
    settings = now;
    each(engine -> engine.settings(now));
  }

  /** Sets mode and idle guard of all; {@code heartbeat} is from one of a node to the next, milliseconds. */
  synchronized void configure(ShimConfig config, long heartbeat) {
    heartbeatMs = heartbeat;
    each(engine -> configure(engine, config));
  }

  private void configure(EngineHandle engine, ShimConfig config) {
    engine.metrics.show(ShimMetrics.Text.MODE, config.mode.text());
    engine.pipeline.guard().configure(config.idleGuardMs, heartbeatMs);
  }

  private void link(EngineHandle engine) {
    String own = engine == first ? thread : thread + "-" + engine.name();
    engine.start(own, sources.apply(settings.config, engine), () -> mayCommit.test(engine), settings);
  }

  /** Ends all links, and waits for that a few seconds at most. */
  void stop() {
    List<EngineHandle> stopped = new ArrayList<>();
    synchronized (this) {
      thread = null;
      stopped.addAll(all);
      stopped.addAll(ending);
      ending.clear();
    }
    stopped.forEach(EngineHandle::stopSoon);
    stopped.forEach(EngineHandle::stop);
  }

  /** The first engine has said which engines there are, or nothing: null. Its link's thread. */
  private String said(Roster now, int asked) {
    return waits || now != null ? take(now, asked) : "";
  }

  private synchronized String take(Roster now, int asked) {
    startLinks();
    if (thread == null || now == null || now.isSame(roster)) {
      return "";
    }
    if (asked == configuration) {
      return "the sidecar names other engines than those that run: 'yarn rmadmin -refreshQueues' takes them";
    }
    roster = now;
    configuration = asked;
    LOG.info("Treadle's engines are {}", roster.engines.stream().map(engine -> engine.name).collect(Collectors.toList()));
    reconcile();
    return "";
  }

  /** Starts and ends engines so that they are those of the roster. With the monitor held. */
  private void reconcile() {
    Map<String, EngineHandle> known = new LinkedHashMap<>();
    each(engine -> known.put(engine.name(), engine));
    known.values().remove(first);
    List<EngineHandle> wanted = new ArrayList<>();
    wanted.add(first);
    for (RosterEntry entry : roster.engines.subList(Math.min(1, roster.engines.size()), roster.engines.size())) {
      EngineHandle engine = known.remove(entry.name);
      wanted.add(engine == null ? made(entry.name, (other, asked) -> "") : engine);
    }
    for (int i = 0; i < wanted.size(); i++) {
      wanted.get(i).entry(roster.engines.isEmpty() ? null : roster.engines.get(i));
    }
    all = Collections.unmodifiableList(wanted);
    owners.roster(roster, new ArrayList<>(wanted));
    known.values().forEach(engine -> {
      LOG.info("Treadle's engine {} is named no longer: it ends", engine.name());
      common.upkeep.overrides(engine.pipeline, false, false);
      engine.stopSoon();
      ending.add(engine);
    });
    export.engines(metrics(), enginesSchedule, owners::json);
    startLinks();
  }

  private EngineHandle made(String name, BiFunction<Roster, Integer, String> onEngines) {
    // the first has 0; none of the others that may still commit has the number of a new one
    int number = made == 0 ? 0 : 1 + made % (NodeCommits.NO_ENGINE - 1);
    made++;
    EngineHandle engine = new EngineHandle(name, number, common, settings.config.leaseMs, owners, onEngines);
    engine.metrics.gauge("Schedules", () -> mayCommit.test(engine) ? 1 : 0);
    configure(engine, settings.config);
    return engine;
  }

  private Map<String, ShimMetrics> metrics() {
    Map<String, ShimMetrics> metrics = new LinkedHashMap<>();
    if (all.size() > 1) {
      each(engine -> metrics.put(engine.name(), engine.metrics));
    }
    return metrics;
  }

  /** Starts those that have no link; one of the same name that is ending ends first. With the monitor held. */
  private void startLinks() {
    List<EngineHandle> ended = ending.stream().filter(engine -> !engine.runs()).collect(Collectors.toList());
    // once more: its last status may have come after it was named no longer
    ended.forEach(engine -> common.upkeep.overrides(engine.pipeline, false, false));
    ending.removeAll(ended);
    if (thread == null || settings.config.mode == Mode.OFF) {
      return;
    }
    boolean someWait = false;
    for (EngineHandle engine : all) {
      boolean ends = ending.stream().anyMatch(old -> old.name().equals(engine.name()));
      someWait |= ends;
      if (!engine.linked() && !ends) {
        link(engine);
      }
    }
    waits = someWait || !ending.isEmpty();
  }
}
