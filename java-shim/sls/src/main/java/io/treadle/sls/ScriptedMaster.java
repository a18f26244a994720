// SPDX-License-Identifier: Apache-2.0
package io.treadle.sls;

import io.treadle.plans.AttemptKey;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hadoop.security.token.Token;
import org.apache.hadoop.yarn.api.protocolrecords.AllocateRequest;
import org.apache.hadoop.yarn.api.protocolrecords.AllocateResponse;
import org.apache.hadoop.yarn.api.protocolrecords.FinishApplicationMasterRequest;
import org.apache.hadoop.yarn.api.protocolrecords.GetNewApplicationRequest;
import org.apache.hadoop.yarn.api.protocolrecords.SubmitApplicationRequest;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.ApplicationSubmissionContext;
import org.apache.hadoop.yarn.api.records.Container;
import org.apache.hadoop.yarn.api.records.ContainerExitStatus;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.ContainerLaunchContext;
import org.apache.hadoop.yarn.api.records.ContainerStatus;
import org.apache.hadoop.yarn.api.records.ExecutionType;
import org.apache.hadoop.yarn.api.records.FinalApplicationStatus;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.api.records.Priority;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.ResourceRequest;
import org.apache.hadoop.yarn.security.AMRMTokenIdentifier;
import org.apache.hadoop.yarn.server.resourcemanager.ResourceManager;
import org.apache.hadoop.yarn.sls.AMDefinition;
import org.apache.hadoop.yarn.sls.SLSRunner;
import org.apache.hadoop.yarn.sls.appmaster.AMSimulator;
import org.apache.hadoop.yarn.util.Records;

/**
 * The application master of a job of a {@link Script}. It is submitted with its type, name and tags, which SLS's own
 * cannot be, and asks by priority as MapReduce and Tez do: a stage when those before it have ended, anywhere in the
 * cluster. Containers are not used again. Each job of the trace takes the next one of the script.
 *
 * <p>A Tez job whose configuration names a plan listener asks for nothing until it has its plan, or has waited long
 * enough.
 */
public class ScriptedMaster extends DirectMaster {
  private final List<ContainerId> toRelease = new ArrayList<>();
  private Map<ApplicationId, AMSimulator> simulators;
  private Script script;
  private Script.Job job;
  /** Null where a plan is waited for. */
  private StagedTasks tasks;
  /** Null without plans. */
  private PlanAgent agent;
  private long submittedMs;
  private long firstContainerMs = -1;
  /** When a task got each container, and when its end was heard of: -1 until then. */
  private final Map<ContainerId, long[]> tasksMs = new LinkedHashMap<>();
  private int misplaced;
  private boolean finished;
  private volatile Container master;

  @Override
  public void init(AMDefinition definition, ResourceManager manager, SLSRunner runner, boolean tracked, long baselineMs,
      long heartbeatMs, Map<ApplicationId, AMSimulator> others) {
    super.init(definition, manager, runner, tracked, baselineMs, heartbeatMs, others);
    simulators = others;
    try {
      script = Script.of(manager.getConfig());
    } catch (IOException e) {
      throw new IllegalStateException(e);
    }
    job = script.next();
    queue = job.queue;
    amtype = job.type;
    agent = PlanAgent.of(job, manager.getConfig(), this::keys);
    tasks = agent == null ? new StagedTasks(job.stages) : null;
    init(job.atMs, job.atMs + 1_000_000L * heartbeatMs, heartbeatMs);
  }

  @Override
  public synchronized void notifyAMContainerLaunched(Container container) throws Exception {
    master = container;
    super.notifyAMContainerLaunched(container);
    if (agent != null) {
      agent.start();
    }
  }

  @Override
  public void firstStep() throws Exception {
    appId = rm.getClientRMService().getNewApplication(Records.newRecord(GetNewApplicationRequest.class))
        .getApplicationId();
    simulators.put(appId, this);
    submittedMs = System.currentTimeMillis();
    SubmitApplicationRequest request = Records.newRecord(SubmitApplicationRequest.class);
    request.setApplicationSubmissionContext(context());
    as(UserGroupInformation.createRemoteUser(job.user), () -> {
      rm.getClientRMService().submitApplication(request);
      return null;
    });
  }

  private ApplicationSubmissionContext context() {
    ApplicationSubmissionContext context = Records.newRecord(ApplicationSubmissionContext.class);
    context.setApplicationId(appId);
    context.setApplicationName(job.name);
    context.setApplicationType(job.type);
    context.setApplicationTags(job.tags);
    context.setMaxAppAttempts(1);
    context.setQueue(job.queue);
    context.setPriority(Priority.newInstance(0));
    ContainerLaunchContext launch = Records.newRecord(ContainerLaunchContext.class);
    launch.setApplicationACLs(new HashMap<>());
    launch.setCommands(new ArrayList<>());
    launch.setEnvironment(new HashMap<>());
    launch.setLocalResources(new HashMap<>());
    launch.setServiceData(new HashMap<>());
    context.setAMContainerSpec(launch);
    context.setResource(Resource.newInstance(job.masterMb, 1));
    return context;
  }

  @Override
  protected void sendContainerRequest() throws Exception {
    if (finished) {
      return;
    }
    if (tasks == null && agent.settled() != null) {
      tasks = new StagedTasks(agent.settled());
    } else if (tasks != null && agent != null) {
      List<Script.Stage> anew = agent.replanned(tasks.asked());
      if (anew != null) {
        tasks.follow(anew);
      }
    }
    AllocateRequest request = createAllocateRequest(asks(), new ArrayList<>(toRelease));
    toRelease.clear();
    AllocateResponse response = asAttempt(() -> rm.getApplicationMasterService().allocate(request));
    if (response != null && tasks != null) {
      take(response);
    }
  }

  private List<ResourceRequest> asks() {
    List<ResourceRequest> asks = new ArrayList<>();
    for (StagedTasks.Ask ask : tasks == null ? Collections.<StagedTasks.Ask>emptyList() : tasks.asks()) {
      asks.add(createResourceRequest(ask.resource, ExecutionType.GUARANTEED, ResourceRequest.ANY, ask.priority,
          NO_ALLOCATION_ID, ask.count));
    }
    return asks;
  }

  /** The key by which the plan listener knows this attempt. */
  private List<AttemptKey> keys() throws IOException {
    Token<AMRMTokenIdentifier> token = token();
    return Collections.singletonList(
        AttemptKey.of(appAttemptId, token.decodeIdentifier().getKeyId(), token.getPassword()));
  }

  private void take(AllocateResponse response) throws Exception {
    for (ContainerStatus status : response.getCompletedContainersStatuses()) {
      long[] span = tasksMs.get(status.getContainerId());
      if (span != null) {
        span[1] = System.currentTimeMillis() - submittedMs;
      }
      boolean succeeded = status.getExitStatus() == ContainerExitStatus.SUCCESS;
      StagedTasks.Task ended = tasks.ended(status.getContainerId(), succeeded);
      if (ended != null && agent != null) {
        agent.ended(ended, System.currentTimeMillis());
      }
    }
    for (Container container : response.getAllocatedContainers()) {
      start(container);
    }
    if (tasks.isDone() || leaves()) {
      finish();
    }
  }

  private boolean leaves() {
    return job.untilMs > 0 && System.currentTimeMillis() - submittedMs >= job.untilMs - job.atMs;
  }

  private void start(Container container) {
    long durationMs = tasks.start(container.getId(), container.getPriority().getPriority());
    if (durationMs < 0) {
      toRelease.add(container.getId());
      return;
    }
    if (firstContainerMs < 0) {
      firstContainerMs = System.currentTimeMillis();
    }
    tasksMs.put(container.getId(), new long[] {System.currentTimeMillis() - submittedMs, -1});
    if (!script.has(container.getNodeId().getHost(), job.requires)) {
      misplaced++;
    }
    se.getNmMap().get(container.getNodeId()).addNewContainer(container, durationMs, appId);
    getRanNodes().add(container.getNodeId());
  }

  private void finish() throws Exception {
    finished = true;
    MeasuredScheduler scheduler = (MeasuredScheduler) rm.getResourceScheduler();
    scheduler.measurements().jobs().ended(job.name,
        new long[] {submittedMs, firstContainerMs, System.currentTimeMillis()}, misplaced,
        agent != null && agent.isPlanned(), new ArrayList<>(tasksMs.values()));
    if (agent != null) {
      agent.end();
    }
    FinishApplicationMasterRequest request = Records.newRecord(FinishApplicationMasterRequest.class);
    request.setFinalApplicationStatus(FinalApplicationStatus.SUCCEEDED);
    asAttempt(() -> rm.getApplicationMasterService().finishApplicationMaster(request));
    // SLS's own ends its container first: a heartbeat of the node between the two would make the attempt one that
    // failed
    se.getNmMap().get(master.getNodeId()).cleanupContainer(master.getId());
    for (NodeId node : getRanNodes()) {
      se.getNmMap().get(node).finishApplication(appId);
    }
  }

  @Override
  protected void checkStop() {
    if (finished) {
      setEndTime(System.currentTimeMillis());
    }
  }
}
