// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.cluster;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.CommonConfigurationKeys;
import org.apache.hadoop.security.SecurityUtil;
import org.apache.hadoop.test.GenericTestUtils;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.api.records.NodeLabel;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.resourcemanager.MockAM;
import org.apache.hadoop.yarn.server.resourcemanager.MockNM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRM;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmissionData;
import org.apache.hadoop.yarn.server.resourcemanager.MockRMAppSubmitter;
import org.apache.hadoop.yarn.server.resourcemanager.nodelabels.NullRMNodeLabelsManager;
import org.apache.hadoop.yarn.server.resourcemanager.nodelabels.RMNodeLabelsManager;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.GatedScheduler;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerNode;
import org.slf4j.event.Level;

/**
 * A real ResourceManager in this JVM with as many NodeManagers and applications as a test wants, without processes or
 * ports. Queues {@code root.a} and {@code root.b} with half of the cluster each and YARN's own tenth of it for AMs,
 * unless the test says otherwise.
 */
public final class ClusterFixture implements AutoCloseable {
  private static final String QUEUES = "yarn.scheduler.capacity.";

  private final MockRM rm;
  private final GatedScheduler scheduler;
  private final List<MockNM> nodes = new ArrayList<>();

  private ClusterFixture(Builder builder) {
    SecurityUtil.setConfiguration(builder.configuration());
    rm = new LabelledRM(builder);
    GenericTestUtils.setRootLogLevel(Level.WARN);
    rm.start();
    scheduler = (GatedScheduler) rm.getResourceScheduler();
  }

  /** A cluster to be described. */
  public static Builder cluster() {
    return new Builder();
  }

  /** The ResourceManager. */
  public MockRM rm() {
    return rm;
  }

  /** Its scheduler, as the subclass under test or as GatedScheduler itself. */
  public GatedScheduler scheduler() {
    return scheduler;
  }

  /** Adds a NodeManager that has sent its first heartbeat. */
  public MockNM node(String host, int memoryMb, int vcores) throws Exception {
    return node(host, Resource.newInstance(memoryMb, vcores));
  }

  /** Adds a NodeManager that has sent its first heartbeat. */
  public MockNM node(String host, Resource capability) throws Exception {
    MockNM node = rm.registerNode(host + ":1234", capability);
    node.nodeHeartbeat(true);
    rm.drainEvents();
    nodes.add(node);
    return node;
  }

  /** Submits an application and waits until the scheduler knows its first attempt. */
  public RMApp submit(String queue, String user, int amMb) throws Exception {
    return submit(MockRMAppSubmissionData.Builder.createWithMemory(amMb, rm)
        .withQueue(queue).withUser(user).withAppName("job").withAppType("MAPREDUCE").withMaxAppAttempts(2));
  }

  /** Submits an application that the test described further. */
  public RMApp submit(MockRMAppSubmissionData.Builder data) throws Exception {
    RMApp app = MockRMAppSubmitter.submit(rm, data.build());
    rm.drainEvents();
    return app;
  }

  /** Has the stock scheduler place the AM on a node, and registers it. The gate is as it was afterwards. */
  public MockAM startAm(RMApp app, MockNM node) throws Exception {
    boolean closed = scheduler.isClosed();
    scheduler.setClosed(false);
    MockAM am = MockRM.launchAndRegisterAM(app, rm, node);
    scheduler.setClosed(closed);
    return am;
  }

  /** The scheduler's current attempt of an application. */
  public FiCaSchedulerApp attempt(RMApp app) {
    return scheduler.getApplicationAttempt(app.getCurrentAppAttempt().getAppAttemptId());
  }

  /** The scheduler's node. */
  public FiCaSchedulerNode schedulerNode(MockNM node) {
    return scheduler.getNode(node.getNodeId());
  }

  /** A heartbeat of each node, and whatever follows of it. */
  public void heartbeatAll() throws Exception {
    for (MockNM node : nodes) {
      node.nodeHeartbeat(true);
    }
    rm.drainEvents();
  }

  @Override
  public void close() {
    rm.stop();
  }

  /** MockRM with the labels that the test described. */
  private static final class LabelledRM extends MockRM {
    LabelledRM(Builder builder) {
      super(builder.configuration());
      RMNodeLabelsManager labels = getRMContext().getNodeLabelManager();
      try {
        labels.addToCluserNodeLabels(builder.labels);
        labels.addLabelsToNode(builder.nodeLabels);
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
    }

    @Override
    protected RMNodeLabelsManager createNodeLabelManager() {
      RMNodeLabelsManager labels = new NullRMNodeLabelsManager();
      labels.init(getConfig());
      return labels;
    }
  }

  /** Describes a cluster. */
  public static final class Builder {
    private final Configuration conf = new YarnConfiguration();
    private final Path folder = newFolder();
    private final List<NodeLabel> labels = new ArrayList<>();
    private final Map<NodeId, Set<String>> nodeLabels = new HashMap<>();

    private Builder() {
      conf.setClass(YarnConfiguration.RM_SCHEDULER, GatedScheduler.class, CapacityScheduler.class);
      conf.setBoolean(YarnConfiguration.NODE_LABELS_ENABLED, true);
      // host names of a test do not resolve
      conf.setBoolean(CommonConfigurationKeys.HADOOP_SECURITY_TOKEN_SERVICE_USE_IP, false);
      conf.setInt(YarnConfiguration.RM_SCHEDULER_MINIMUM_ALLOCATION_MB, 1024);
      // else in one folder for all tests of a user, side by side
      conf.set(YarnConfiguration.FS_NODE_ATTRIBUTE_STORE_ROOT_DIR, folder.resolve("attributes").toUri().toString());
      conf.set(YarnConfiguration.FS_NODE_LABELS_STORE_ROOT_DIR, folder.resolve("labels").toUri().toString());
      queues("root", "a,b").capacity("root.a", 50).capacity("root.b", 50);
      set("maximum-am-resource-percent", "0.1");
      set("user-limit-factor", "100");
    }

    /** Sets a key of yarn-site.xml. */
    public Builder site(String key, String value) {
      conf.set(key, value);
      return this;
    }

    /** Sets a key of capacity-scheduler.xml, without its {@code yarn.scheduler.capacity.}. */
    public Builder set(String key, String value) {
      conf.set(QUEUES + key, value);
      return this;
    }

    /** Names the children of a queue. */
    public Builder queues(String parent, String children) {
      return set(parent + ".queues", children);
    }

    /** Sets a queue's capacity, percent of its parent, with no user limit below its maximum. */
    public Builder capacity(String queue, int percent) {
      return set(queue + ".capacity", Integer.toString(percent)).set(queue + ".user-limit-factor", "100");
    }

    /** Adds a partition and the hosts in it. */
    public Builder label(String name, boolean exclusive, String... hosts) {
      labels.add(NodeLabel.newInstance(name, exclusive));
      for (String host : hosts) {
        nodeLabels.put(NodeId.newInstance(host, 0), Collections.singleton(name));
      }
      return this;
    }

    /** Anything else. */
    public Builder with(Consumer<Configuration> change) {
      change.accept(conf);
      return this;
    }

    /** Starts the cluster. */
    public ClusterFixture start() {
      return new ClusterFixture(this);
    }

    private static Path newFolder() {
      try {
        return Files.createTempDirectory(Paths.get("target"), "cluster").toAbsolutePath();
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
    }

    private Configuration configuration() {
      return conf;
    }
  }
}
