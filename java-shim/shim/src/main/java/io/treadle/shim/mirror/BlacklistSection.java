// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import io.treadle.shim.Cap;
import io.treadle.shim.wire.Section;
import java.util.Collections;
import java.util.Iterator;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;

/**
 * Writes the nodes and racks that applications do not want, and applications' tags. While an attempt waits for its AM
 * container the RM's own list counts, of nodes on which earlier attempts failed; afterwards the AM's. Of a list a
 * bounded number of names ({@link Cap}) is sent.
 */
final class BlacklistSection {
  private final NodeSection nodes;

  BlacklistSection(NodeSection nodes) {
    this.nodes = nodes;
  }

  /** Writes what has changed of an application's list. */
  void review(Draft draft, ApplicationSection.Row row) {
    int most = row.room(Cap.BLACKLISTED_NAMES);
    Set<String> all = row.awaitingAm && row.app.getApplicationAttemptId().getAttemptId() == 1 ? Collections.emptySet()
        : names(row);
    row.stands(Cap.BLACKLISTED_NAMES, Math.min(all.size(), most), all.size() > most);
    for (Iterator<String> sent = row.blacklist.iterator(); sent.hasNext();) {
      String name = sent.next();
      if (!all.contains(name)) {
        sent.remove();
        write(draft, row, name, false);
      }
    }
    for (String name : all) {
      if (row.blacklist.size() < most && !row.blacklist.contains(name) && !row.waits(draft)) {
        row.blacklist.add(name);
        write(draft, row, name, true);
      }
    }
  }

  private static void write(Draft draft, ApplicationSection.Row row, String name, boolean present) {
    row.budget.spend(UserBudget.ROW);
    draft.section(Section.BLACKLIST).i32(row.index).name(draft.name(name)).flag(present).end();
  }

  /** Those names of the list that a node or a rack has. The RM's own list can only be asked about single names. */
  private Set<String> names(ApplicationSection.Row row) {
    if (row.awaitingAm || row.longBlacklist) {
      row.budget.spend(nodes.places().size());
      return nodes.places().stream()
          .filter(name -> row.app.getAppSchedulingInfo().isPlaceBlacklisted(name, row.awaitingAm))
          .collect(Collectors.toSet());
    }
    Set<String> all = row.app.getBlacklistedNodes();
    row.longBlacklist = all.size() > Cap.BLACKLISTED_NAMES.ofApplication;
    row.unknownPlaces |= all.removeIf(name -> !nodes.isPlace(name));
    return all;
  }

  /** Writes the tags of a new application, and what the environment of its master requires and prefers as such. */
  void writeTags(Draft draft, ApplicationSection.Row row) {
    RMApp app = draft.context.getRMApps().get(row.app.getApplicationId());
    if (app == null) {
      return;
    }
    for (String tag : ApplicationTags.of(app)) {
      draft.section(Section.TAGS).i32(row.index).name(draft.name(tag)).end();
    }
  }
}
