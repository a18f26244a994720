// SPDX-License-Identifier: Apache-2.0
package io.treadle.spark;

import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.SparkPlugin;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The value of {@code spark.plugins}: reports an application's stages to the plan listener. It orders nothing.
 *
 * <p>A plug-in that cannot be loaded fails the application, so this class needs nothing that Spark has not. All else is
 * loaded by name, and whatever is thrown there means that nothing is reported.
 */
public final class TreadlePlugin implements SparkPlugin {
  private static final Logger LOG = LoggerFactory.getLogger(TreadlePlugin.class);
  private static final String REPORTING = "io.treadle.spark.StageReporting";

  /** Called by Spark in the driver. */
  @Override
  public DriverPlugin driverPlugin() {
    try {
      return (DriverPlugin) Class.forName(REPORTING, true, TreadlePlugin.class.getClassLoader())
          .getConstructor().newInstance();
    } catch (Throwable problem) {
      LOG.warn("stages are not reported to Treadle", problem);
      return null;
    }
  }

  /** Nothing runs in executors. */
  @Override
  public ExecutorPlugin executorPlugin() {
    return null;
  }
}
