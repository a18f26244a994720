// SPDX-License-Identifier: Apache-2.0
package io.treadle.sls;

import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.api.protocolrecords.AllocateRequest;
import org.apache.hadoop.yarn.api.protocolrecords.AllocateResponse;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.Container;
import org.apache.hadoop.yarn.api.records.ExecutionType;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.ResourceRequest;
import org.apache.hadoop.yarn.server.resourcemanager.ResourceManager;
import org.apache.hadoop.yarn.server.resourcemanager.rmnode.RMNode;
import org.apache.hadoop.yarn.sls.AMDefinition;
import org.apache.hadoop.yarn.sls.SLSRunner;
import org.apache.hadoop.yarn.sls.appmaster.AMSimulator;

/**
 * An application master whose requests never end: at each call it requests as many containers as at the first. Its
 * containers run for a given time and are forgotten. It never ends, so the load ends with the measurement.
 */
public class BacklogMaster extends DirectMaster {
  /** Over how many leaf queues the masters are spread, in turn; they are called q0, q1, ... */
  static final String QUEUES_KEY = "treadle.bench.backlog.queues";
  /** Containers that each master asks for. */
  static final String ASKS_KEY = "treadle.bench.backlog.asks";
  /** How long a container runs. */
  static final String TASK_MS_KEY = "treadle.bench.backlog.task-ms";
  /** On how many nodes each master would like its containers best; their racks come next. */
  static final String PREFERRED_KEY = "treadle.bench.backlog.preferred-nodes";
  /** Seed of the draw of the preferred nodes. */
  static final String SEED_KEY = "treadle.bench.backlog.seed";
  /** Memory of a container in MB. */
  static final String CONTAINER_MB_KEY = "treadle.bench.backlog.container-mb";

  private static final int PRIORITY = 20;
  private static final AtomicInteger NUMBERS = new AtomicInteger();
  /** Whose nodes {@link #sorted} are; guarded by the class. */
  private static SLSRunner sortedOf;
  private static List<RMNode> sorted = Collections.emptyList();

  private int number;
  private Map<String, Integer> asks;
  private Resource capability;

  @Override
  public void init(AMDefinition definition, ResourceManager manager, SLSRunner runner, boolean tracked, long baselineMs,
      long heartbeatMs, Map<ApplicationId, AMSimulator> simulators) {
    super.init(definition, manager, runner, tracked, baselineMs, heartbeatMs, simulators);
    number = NUMBERS.getAndIncrement();
    Configuration conf = manager.getConfig();
    queue = "q" + number % conf.getInt(QUEUES_KEY, 1);
    capability = Resource.newInstance(conf.getInt(CONTAINER_MB_KEY, 1024), 1);
  }

  @Override
  protected void sendContainerRequest() throws Exception {
    if (asks == null) {
      asks = asksOf(rm.getConfig());
    }
    List<ResourceRequest> requests = new ArrayList<>(asks.size());
    asks.forEach((name, count) -> requests.add(
        createResourceRequest(capability, ExecutionType.GUARANTEED, name, PRIORITY, NO_ALLOCATION_ID, count)));
    AllocateRequest request = createAllocateRequest(requests);
    AllocateResponse response = asAttempt(() -> rm.getApplicationMasterService().allocate(request));
    if (response != null) {
      long taskMs = rm.getConfig().getLong(TASK_MS_KEY, 1);
      for (Container container : response.getAllocatedContainers()) {
        se.getNmMap().get(container.getNodeId()).addNewContainer(container, taskMs, appId);
      }
    }
  }

  /** Returns the requested number of containers by place: the drawn nodes, their racks, and anywhere. */
  private Map<String, Integer> asksOf(Configuration conf) {
    int preferred = conf.getInt(PREFERRED_KEY, 0);
    return spread(conf.getInt(ASKS_KEY, 1), preferred, preferred > 0 ? nodesOf(se) : Collections.emptyList(),
        new Random(conf.getLong(SEED_KEY, 1) + number));
  }

  /**
   * All nodes by name. They are sorted once for all masters: where there are many of both, sorting for each keeps the
   * simulator's threads from the nodes' heartbeats for seconds.
   */
  private static synchronized List<RMNode> nodesOf(SLSRunner runner) {
    if (sortedOf != runner) {
      List<RMNode> nodes = new ArrayList<>();
      runner.getNmMap().values().forEach(each -> nodes.add(each.getNode()));
      nodes.sort(Comparator.comparing(RMNode::getHostName));
      sorted = nodes;
      sortedOf = runner;
    }
    return sorted;
  }

  static Map<String, Integer> spread(int count, int preferred, List<RMNode> nodes, Random random) {
    Map<String, Integer> asks = new TreeMap<>();
    int wanted = Math.min(Math.min(preferred, count), nodes.size());
    List<RMNode> left = new ArrayList<>(nodes);
    for (int i = 0; i < wanted; i++) {
      RMNode node = left.remove(random.nextInt(left.size()));
      int share = count / wanted + (i < count % wanted ? 1 : 0);
      asks.put(node.getHostName(), share);
      // as the RM calls it; the simulator leaves out what it begins with
      asks.merge("/" + node.getRackName(), share, Integer::sum);
    }
    asks.put(ResourceRequest.ANY, count);
    return asks;
  }

  @Override
  protected void checkStop() {
    // it never stops
  }
}
