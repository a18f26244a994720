package io.treadle.shim;

import io.treadle.shim.commit.AskLocks;
import io.treadle.shim.commit.CommitSettings;
import io.treadle.shim.commit.CommitTurns;
import io.treadle.shim.engines.Living;
import io.treadle.shim.engines.NodeCommits;
import io.treadle.shim.engines.Owners;
import io.treadle.shim.engines.Roster;
import io.treadle.shim.engines.RosterEntry;
import io.treadle.shim.engines.Served;
import io.treadle.shim.journal.Journal;
import io.treadle.shim.link.EngineSource;
import io.treadle.shim.link.Lease;
import io.treadle.shim.link.Link;
import io.treadle.shim.link.LinkSettings;
import io.treadle.shim.metrics.ShimMetrics;
import io.treadle.shim.mirror.Mirror;
import io.treadle.shim.mirror.MirrorSettings;
import java.util.function.BiFunction;
import java.util.function.BooleanSupplier;
import java.util.function.LongSupplier;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;

/**
 * One engine as the shim holds it: what it gets (a mirror), whether it may schedule (a lease), what happens to its
 * answers (a pipeline), what is counted of it, and, while it runs, the link that talks to it.
 */
final class EngineHandle implements Served, Living {
  final Lease lease;
  final ShimMetrics metrics;
  final CommitPipeline pipeline;
  private final Mirror mirror;
  private final Owners owners;
  private volatile String name;
  private volatile long decisionMaxMs;
  private volatile boolean coarse;
  private volatile int precedence;
  private volatile double claim = 1;
  private final NodeCommits nodeCommits;
  private final int number;
  private volatile Link link;

  /** What engines of one scheduler have in common. */
  static final class Common {
    final SchedulerPort port;
    final Journal journal;
    final Upkeep upkeep;
    final CommitSettings commits;
    final MirrorSettings mirrors;
    final LongSupplier escapes;
    final NodeCommits nodeCommits = new NodeCommits();
    final AskLocks asks = new AskLocks();
    final CommitTurns turns = new CommitTurns();

    Common(SchedulerPort port, Journal journal, Upkeep upkeep, CommitSettings commits, MirrorSettings mirrors,
        LongSupplier escapes) {
      this.port = port;
      this.journal = journal;
      this.upkeep = upkeep;
      this.commits = commits;
      this.mirrors = mirrors;
      this.escapes = escapes;
    }
  }

  /**
   * An engine without a link.
   *
   * @param name what the roster calls it, empty for the only engine
   * @param number no other engine's that commits
   * @param onEngines called with the roster that the engine's status names and the number of the configuration that it
   *     knew; answers why it is not taken, else empty
   */
  EngineHandle(String name, int number, Common common, long leaseMs, Owners owners,
      BiFunction<Roster, Integer, String> onEngines) {
    this.name = name;
    this.number = number;
    this.nodeCommits = common.nodeCommits;
    this.owners = owners;
    lease = new Lease(System::nanoTime, leaseMs);
    mirror = new Mirror(common.port, common.journal, common.mirrors, this);
    metrics = new ShimMetrics(lease::held, lease::flips, mirror::snapshots, common.escapes);
    pipeline = new CommitPipeline(common, metrics, this, onEngines);
    metrics.gauge("Stalled", () -> pipeline.guard().suspended() ? 1 : 0);
    metrics.gauge("Moved", mirror::moved);
    metrics.gauge("IdleRounds", () -> pipeline.guard().rounds());
  }

  @Override
  public String name() {
    return name;
  }

  /** What a roster says of it, null if it is alone; only the first engine's name changes. */
  void entry(RosterEntry entry) {
    name = entry == null ? "" : entry.name;
    decisionMaxMs = entry == null ? 0 : entry.decisionMaxMs;
    coarse = entry != null && entry.coarse;
    precedence = entry == null ? 0 : entry.precedence;
    claim = entry == null ? 1 : entry.claim;
  }

  @Override
  public boolean several() {
    return owners.several();
  }

  @Override
  public int precedence() {
    return precedence;
  }

  @Override
  public double claim() {
    return claim;
  }

  @Override
  public int number() {
    return number;
  }

  @Override
  public long commits() {
    return nodeCommits.count();
  }

  @Override
  public boolean changed(NodeId node, long since) {
    return coarse && nodeCommits.changed(node, number, since);
  }

  /** How long it may answer that it decides, milliseconds; 0 if it is alone and must not. */
  long decisionMaxMs() {
    return decisionMaxMs;
  }

  @Override
  public boolean held() {
    return lease.held() && !pipeline.guard().suspended();
  }

  @Override
  public boolean schedules() {
    return lease.schedules() && !pipeline.guard().suspended();
  }

  @Override
  public boolean serves(FiCaSchedulerApp app) {
    return owners.serves(name, app);
  }

  @Override
  public int generation() {
    return owners.generation();
  }

  /** Gives an application up; answers who serves it now, null if nothing has changed. */
  String giveUp(FiCaSchedulerApp app) {
    return owners.giveUp(name, app);
  }

  boolean othersLive() {
    return owners.othersLive(name);
  }

  /** Whether it has a link, which {@link #stop} ends. */
  boolean linked() {
    return link != null;
  }

  void start(String thread, EngineSource source, BooleanSupplier mayCommit, LinkSettings settings) {
    link = new Link(thread, mirror, lease, source, pipeline, metrics, mayCommit, settings);
    link.start();
  }

  /** Something changed that the engine should hear of. Cheap, from any thread. */
  void signal() {
    Link current = link;
    if (current != null) {
      current.signal();
    }
  }

  /** Takes other settings; those of the idle guard begin anew. */
  void settings(LinkSettings settings) {
    lease.duration(settings.config.leaseMs);
    Link current = link;
    if (current != null) {
      current.settings(settings);
    }
  }

  /** Has the link and the sidecar end, and does not wait for it. */
  void stopSoon() {
    lease.release();
    Link current = link;
    if (current != null) {
      current.stopSoon();
    }
  }

  /** Whether {@link #stopSoon} has not come to its end. */
  boolean runs() {
    Link current = link;
    return current != null && current.runs();
  }

  /** Ends the link and the sidecar, and waits for that a few seconds at most. */
  void stop() {
    lease.release();
    Link current = link;
    link = null;
    if (current != null) {
      current.stop();
    }
  }
}
