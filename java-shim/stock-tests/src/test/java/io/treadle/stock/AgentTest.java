// SPDX-License-Identifier: Apache-2.0
package io.treadle.stock;

import static org.junit.Assert.assertEquals;

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.resourcemanager.MockRM;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.ResourceScheduler;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.TreadleScheduler;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.fifo.FifoScheduler;
import org.junit.Test;

/** Without this the other tests would prove nothing: the class under test is ours. */
public class AgentTest {
  private static Class<?> made(Class<? extends ResourceScheduler> asked) throws IOException {
    Configuration conf = new YarnConfiguration();
    conf.setClass(YarnConfiguration.RM_SCHEDULER, asked, ResourceScheduler.class);
    try (MockRM rm = new MockRM(conf)) {
      assertEquals(asked.getName(), rm.getConfig().get(YarnConfiguration.RM_SCHEDULER));
      return rm.getResourceScheduler().getClass();
    }
  }

  @Test
  public void aCapacitySchedulerIsOurs() throws IOException {
    assertEquals(TreadleScheduler.class, made(CapacityScheduler.class));
  }

  @Test
  public void anotherSchedulerIsAsAsked() throws IOException {
    assertEquals(FifoScheduler.class, made(FifoScheduler.class));
  }
}
