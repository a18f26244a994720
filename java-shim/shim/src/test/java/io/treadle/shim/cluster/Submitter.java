// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.cluster;

import java.security.PrivilegedExceptionAction;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hadoop.yarn.api.protocolrecords.GetNewApplicationRequest;
import org.apache.hadoop.yarn.api.protocolrecords.SubmitApplicationRequest;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.ApplicationSubmissionContext;
import org.apache.hadoop.yarn.api.records.ContainerLaunchContext;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.server.resourcemanager.MockRM;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMAppState;
import org.apache.hadoop.yarn.util.Records;

/** Submits applications as a client does, with an environment of their master, which MockRM leaves out. */
public final class Submitter {
  private Submitter() {
  }

  /** Submits an application of "ann" and waits until its first attempt is scheduled. */
  public static RMApp submit(MockRM rm, String queue, int amMb, Set<String> tags, String... environment)
      throws Exception {
    ApplicationId id = rm.getClientRMService()
        .getNewApplication(Records.newRecord(GetNewApplicationRequest.class)).getApplicationId();
    Map<String, String> variables = new HashMap<>();
    for (int i = 0; i < environment.length; i += 2) {
      variables.put(environment[i], environment[i + 1]);
    }
    ApplicationSubmissionContext context = Records.newRecord(ApplicationSubmissionContext.class);
    context.setApplicationId(id);
    context.setApplicationName("job");
    context.setApplicationType("MAPREDUCE");
    context.setQueue(queue);
    context.setApplicationTags(tags);
    context.setResource(Resource.newInstance(amMb, 1));
    context.setAMContainerSpec(ContainerLaunchContext.newInstance(
        Collections.emptyMap(), variables, Collections.emptyList(), null, null, null));
    SubmitApplicationRequest request = SubmitApplicationRequest.newInstance(context);
    UserGroupInformation.createUserForTesting("ann", new String[] {"people"})
        .doAs((PrivilegedExceptionAction<Object>) () -> rm.getClientRMService().submitApplication(request));
    rm.waitForState(id, RMAppState.ACCEPTED);
    rm.drainEvents();
    return rm.getRMContext().getRMApps().get(id);
  }
}
