// SPDX-License-Identifier: Apache-2.0
package org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity;

import io.treadle.shim.SchedulerPort;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.Lock;
import java.util.function.BooleanSupplier;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.server.resourcemanager.RMContext;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.ResourceCommitRequest;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerNode;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.placement.CandidateNodeSet;

/** A real CapacityScheduler with a gate and nothing else: what tests of the parts below TreadleScheduler run on. */
public class GatedScheduler extends CapacityScheduler implements SchedulerPort {
  private volatile boolean closed;
  private volatile RuntimeException failure;
  private volatile RMContext pretended;
  private volatile boolean rejecting;
  private volatile BooleanSupplier heartbeatWaits = () -> false;
  private final AtomicInteger commits = new AtomicInteger();
  private final AtomicInteger writeLocks = new AtomicInteger();

  /** Closes or opens the gate for the stock scheduler's own placements. */
  public void setClosed(boolean gateClosed) {
    closed = gateClosed;
  }

  /** Whether the gate is closed. */
  public boolean isClosed() {
    return closed;
  }

  /** Makes the next calls of tryCommit throw, until null is set. */
  public void failCommitsWith(RuntimeException error) {
    failure = error;
  }

  /** Makes the next call of tryCommit say no, as if something had changed that is as it was when one looks. */
  public void rejectNextCommit() {
    rejecting = true;
  }

  /** Has the parts under test see another context than the scheduler has. */
  public void pretendContext(RMContext context) {
    pretended = context;
  }

  /** Has the committer ask this whether a heartbeat waits. */
  public void heartbeatWaits(BooleanSupplier answer) {
    heartbeatWaits = answer;
  }

  @Override
  public boolean heartbeatWaits() {
    return heartbeatWaits.getAsBoolean();
  }

  /** How often tryCommit was called. */
  public int commits() {
    return commits.get();
  }

  /** How often a part under test asked for the write lock. */
  public int writeLocks() {
    return writeLocks.get();
  }

  @Override
  CSAssignment allocateContainersToNode(CandidateNodeSet<FiCaSchedulerNode> candidates, boolean withNodeHeartbeat) {
    return closed ? null : super.allocateContainersToNode(candidates, withNodeHeartbeat);
  }

  @Override
  @SuppressWarnings("rawtypes")
  public boolean tryCommit(Resource cluster, ResourceCommitRequest request, boolean updatePending) {
    commits.incrementAndGet();
    RuntimeException error = failure;
    if (error != null) {
      throw error;
    }
    if (rejecting) {
      rejecting = false;
      return rejected(request);
    }
    return super.tryCommit(cluster, request, updatePending);
  }

  /** What the stock scheduler does with a request that it turns down. */
  private static boolean rejected(ResourceCommitRequest<?, ?> request) {
    request.getContainersToAllocate().forEach(container ->
        container.getAllocatedOrReservedContainer().getSchedulerApplicationAttempt()
            .decUnconfirmedRes(container.getAllocatedOrReservedResource()));
    return false;
  }

  @Override
  public CapacityScheduler scheduler() {
    return this;
  }

  @Override
  public RMContext getRMContext() {
    return pretended == null ? rmContext : pretended;
  }

  @Override
  public Lock readLock() {
    return readLock;
  }

  @Override
  public Lock writeLock() {
    writeLocks.incrementAndGet();
    return writeLock;
  }
}
