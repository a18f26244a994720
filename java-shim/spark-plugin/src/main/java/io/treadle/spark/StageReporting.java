// SPDX-License-Identifier: Apache-2.0
package io.treadle.spark;

import io.treadle.plans.AttemptKey;
import io.treadle.plans.ListenerAddresses;
import io.treadle.plans.RemotePlanListener;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.Collections;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.BinaryOperator;
import java.util.function.Consumer;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.spark.SparkContext;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Reports the stages of a driver's application. Whatever goes wrong, the application goes on as without it. */
public final class StageReporting implements DriverPlugin {
  /** {@code host:port} of the plan listener of each ResourceManager, separated by commas. */
  static final String ADDRESSES = "spark.treadle.addresses";
  /** How long the end of an application may wait for its last report, milliseconds. */
  static final String WAIT_MS = "spark.treadle.wait-ms";
  /** Whether nothing is said to a listener that does not encrypt. */
  static final String ENCRYPT = "spark.treadle.encrypt";

  private static final Logger LOG = LoggerFactory.getLogger(StageReporting.class);
  private static final long WAIT_MS_MAX = 60_000;

  private long waitMs;
  private StageAgent agent;

  @Override
  public Map<String, String> init(SparkContext context, PluginContext plugin) {
    begin((name, otherwise) -> plugin.conf().get(name, otherwise), context::addSparkListener);
    return Collections.emptyMap();
  }

  /**
   * Listens to an application's events, if its settings name a listener for reports.
   *
   * @param settings returns the value of a setting, or the default passed with its name
   * @param register receives the listener for events
   */
  void begin(BinaryOperator<String> settings, Consumer<StageListener> register) {
    try {
      List<InetSocketAddress> addresses = ListenerAddresses.read(ADDRESSES, settings.apply(ADDRESSES, ""));
      waitMs = waitMs(settings.apply(WAIT_MS, "2000"));
      boolean encrypt = ListenerAddresses.flag(ENCRYPT, settings.apply(ENCRYPT, "false"));
      register.accept(listener(addresses, encrypt));
    } catch (Throwable problem) {
      LOG.warn("stages are not reported to Treadle: {}", String.valueOf(problem));
    }
  }

  private static long waitMs(String text) {
    if (!text.matches("\\d{1,6}") || Long.parseLong(text) > WAIT_MS_MAX) {
      throw new IllegalArgumentException(WAIT_MS + " is " + text + "; write 0 to " + WAIT_MS_MAX);
    }
    return Long.parseLong(text);
  }

  private StageListener listener(List<InetSocketAddress> addresses, boolean encrypt) throws IOException {
    // The first of them has the token that the ResourceManager renews; Spark runs a driver's thread in its name.
    Set<UserGroupInformation> users = new LinkedHashSet<>();
    users.add(UserGroupInformation.getCurrentUser());
    users.add(UserGroupInformation.getLoginUser());
    StageTable stages = new StageTable();
    agent = new StageAgent(stages, application -> {
      DriverKeys keys = new DriverKeys(application, users);
      return keys.find().isEmpty() ? null
          : new RemotePlanListener(addresses, keys::find, RemotePlanListener.clock(), encrypt);
    });
    return new StageListener(stages, agent);
  }

  /** Called when the application has ended and its last event has been heard. */
  @Override
  public void shutdown() {
    try {
      if (agent != null) {
        agent.end(waitMs);
      }
    } catch (Throwable problem) {
      LOG.warn("the last stages are not reported to Treadle: {}", String.valueOf(problem));
    }
  }

  /** The keys of the attempt that runs a driver; none where the driver is not in its application master. */
  private static final class DriverKeys {
    private final String application;
    private final Set<UserGroupInformation> users;

    DriverKeys(String application, Set<UserGroupInformation> users) {
      this.application = application;
      this.users = users;
    }

    List<AttemptKey> find() throws IOException {
      return AttemptKey.of(attempt -> attempt.getApplicationId().toString().equals(application), users);
    }
  }
}
