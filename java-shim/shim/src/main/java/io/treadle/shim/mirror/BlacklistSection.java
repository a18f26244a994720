package io.treadle.shim.mirror;

import io.treadle.shim.Caps;
import io.treadle.shim.constraints.Requirements;
import io.treadle.shim.wire.Section;
import java.util.Collections;
import java.util.HashSet;
import java.util.Iterator;
import java.util.Set;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;

/**
 * Writes the nodes and racks that applications do not want, and applications' tags. While an attempt waits for its AM
 * container the RM's own list counts, of nodes on which earlier attempts failed; afterwards the AM's. Of a list at most
 * {@value Caps#BLACKLISTED_NAMES} names are sent.
 */
final class BlacklistSection {
  private final ApplicationSection applications;
  private final NodeSection nodes;

  BlacklistSection(ApplicationSection applications, NodeSection nodes) {
    this.applications = applications;
    this.nodes = nodes;
  }

  /** Writes an application's list if it is not the one sent last. */
  void review(Draft draft, ApplicationSection.Row row) {
    Set<String> all = row.awaitingAm ? ofSystem(row.app) : row.app.getBlacklistedNodes();
    row.moreNames = all.size() > Caps.BLACKLISTED_NAMES;
    row.reportCaps(draft);
    Set<String> now = row.moreNames ? some(all, row.blacklist) : all;
    if (now.equals(row.blacklist)) {
      return;
    }
    row.blacklist = now;
    applications.markDirty(row, ApplicationSection.REPLACES_BLACKLIST);
    for (String name : now) {
      draft.section(Section.BLACKLIST).i32(row.index).name(draft.name(name)).end();
    }
  }

  /** As many as may be sent, those first that were sent before. */
  private static Set<String> some(Set<String> all, Set<String> before) {
    Set<String> some = new HashSet<>(before);
    some.retainAll(all);
    for (Iterator<String> rest = all.iterator(); some.size() < Caps.BLACKLISTED_NAMES;) {
      some.add(rest.next());
    }
    return some;
  }

  /** The RM's list can only be asked about single names: all those of the cluster. */
  private Set<String> ofSystem(FiCaSchedulerApp app) {
    return app.getApplicationAttemptId().getAttemptId() == 1 ? Collections.emptySet()
        : nodes.placeNames(name -> app.getAppSchedulingInfo().isPlaceBlacklisted(name, true));
  }

  /** Writes the tags of a new application, and what the environment of its master requires and prefers as such. */
  void writeTags(Draft draft, ApplicationSection.Row row) {
    RMApp app = draft.context.getRMApps().get(row.app.getApplicationId());
    if (app == null) {
      return;
    }
    for (String tag : Requirements.tags(app)) {
      draft.section(Section.TAGS).i32(row.index).name(draft.name(tag)).end();
    }
  }
}
