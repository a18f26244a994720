// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import io.treadle.shim.Cap;
import io.treadle.shim.EngineView;
import io.treadle.shim.wire.Section;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.api.records.ResourceRequest;
import org.apache.hadoop.yarn.api.records.SchedulingRequest;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.PendingAsk;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerNode;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.placement.AppPlacementAllocator;
import org.apache.hadoop.yarn.server.scheduler.SchedulerRequestKey;

/**
 * Writes outstanding requests and their localities, always as the difference to what was sent last. Requests to
 * change a container are left out: the shim serves them itself. A bounded number of the keys of an application and of a
 * user ({@link Cap}) is outstanding in the engine; the others follow as these are served. Containers placed cost one
 * row a request key and frame, however many they are.
 */
final class RequestSection {
  private final List<Row> dirty = new ArrayList<>();
  private final List<ApplicationSection.Row> owners = new ArrayList<>();
  /** So many names of an application that no node and no rack has are sent. */
  private static final int UNKNOWN_PLACES = 16;
  /**
   * A key with a lower index keeps it for the attempt's life, so that a key that comes again is known; higher indices
   * are used again for other keys.
   */
  static final int KEPT_INDICES = 1 << 12;

  private final NodeSection nodes;
  private final EngineView view;
  private long round;
  private int size;

  RequestSection(NodeSection nodes, EngineView view) {
    this.view = view;
    this.nodes = nodes;
  }

  void reset() {
    dirty.clear();
    owners.clear();
    size = 0;
  }

  /** An application has gone. */
  void forget(ApplicationSection.Row row) {
    size -= row.keysByIndex.size();
  }

  /** How many indices of request keys there are. */
  int size() {
    return size;
  }

  /** A container was placed on a node for a request key. */
  void placed(ApplicationSection.Row row, SchedulerRequestKey key, NodeId node) {
    Row request = key == null ? null : row.keys.get(key);
    if (request == null) {
      return;
    }
    if (!request.localities.isEmpty()) {
      request.placed.add(node);
    }
    if (!request.dirty) {
      request.dirty = true;
      dirty.add(request);
      owners.add(row);
    }
  }

  /**
   * Writes what changed by containers placed.
   *
   * @return applications that have to be looked at: others of their requests have room now
   */
  Set<ApplicationSection.Row> writePlaced(Draft draft) {
    Set<ApplicationSection.Row> withRoom = new LinkedHashSet<>();
    for (int i = 0; i < dirty.size(); i++) {
      Row request = dirty.get(i);
      request.dirty = false;
      ApplicationSection.Row row = owners.get(i);
      // a key with count 0 is for a review: it may be beyond the limit
      if (row.lives() && request.count > 0) {
        AppPlacementAllocator<FiCaSchedulerNode> allocator = row.app.getAppPlacementAllocator(request.key);
        int count = allocator == null ? 0 : allocator.getOutstandingAsksCount(ResourceRequest.ANY);
        if (count != request.count) {
          setCount(draft, row, request, count);
        }
        if (count > 0) {
          writePlaces(draft, row, request, allocator);
        } else if (row.exceeded.contains(Cap.REQUEST_KEYS)) {
          withRoom.add(row);
        }
      }
      request.placed.clear();
    }
    dirty.clear();
    owners.clear();
    return withRoom;
  }

  private void writePlaces(Draft draft, ApplicationSection.Row row, Row request,
      AppPlacementAllocator<FiCaSchedulerNode> allocator) {
    for (NodeId node : request.placed) {
      writePlace(draft, row, request, nodes.nodeName(node), allocator);
      writePlace(draft, row, request, nodes.rackName(node), allocator);
    }
  }

  private static void writePlace(Draft draft, ApplicationSection.Row row, Row request, String name,
      AppPlacementAllocator<FiCaSchedulerNode> allocator) {
    Row.Locality locality = name == null ? null : request.localities.get(name);
    if (locality == null) {
      return;
    }
    int count = Math.max(0, allocator.getOutstandingAsksCount(name));
    if (count != locality.count) {
      locality.count = count;
      writeLocality(draft, row, request, name, locality);
      if (count == 0) {
        request.localities.remove(name);
      }
    }
  }

  /** Compares the requests of an application with what was sent, as many as it may have there. */
  void review(Draft draft, ApplicationSection.Row row) {
    round++;
    int most = row.room(Cap.REQUEST_KEYS);
    Walk walk = new Walk(draft, row);
    int looked = 0;
    boolean more = false;
    for (SchedulerRequestKey key : row.app.getSchedulerKeys()) {
      if (looked == most) {
        more = true;
        break;
      }
      looked++;
      if (key.getContainerToUpdate() == null) {
        review(walk, key);
      }
    }
    row.stands(Cap.REQUEST_KEYS, looked, more);
    row.stands(Cap.LOCALITIES, walk.localities, walk.moreLocalities);
    view.keys(row.app.getApplicationAttemptId(), most < Cap.REQUEST_KEYS.ofApplication ? most : null);
    if (walk.seen < row.keys.size()) {
      removeUnseen(draft, row);
    }
  }

  private void removeUnseen(Draft draft, ApplicationSection.Row row) {
    for (Iterator<Row> all = row.keys.values().iterator(); all.hasNext();) {
      Row request = all.next();
      if (request.seen != round) {
        if (request.count > 0) {
          setCount(draft, row, request, 0);
        }
        all.remove();
        if (request.index < KEPT_INDICES) {
          row.goneKeys.put(request.key, request);
        } else {
          row.keysByIndex.set(request.index, null);
          row.keyIndices.giveBack(request.index, draft.monotonicMs);
        }
      }
    }
  }

  /** One look at the requests of an application. */
  private static final class Walk {
    private final Draft draft;
    private final ApplicationSection.Row row;
    private final int mostLocalities;
    private int localities;
    private boolean moreLocalities;
    private int unknownPlaces;
    private int seen;

    Walk(Draft draft, ApplicationSection.Row row) {
      this.draft = draft;
      this.row = row;
      mostLocalities = row.room(Cap.LOCALITIES);
    }
  }

  private void review(Walk walk, SchedulerRequestKey key) {
    ApplicationSection.Row row = walk.row;
    Row request = row.keys.get(key);
    boolean waits = row.waits(walk.draft);
    if (request == null && waits) {
      return;
    }
    if (request == null) {
      request = row.goneKeys.remove(key);
      if (request == null) {
        request = newRow(walk.draft, row, key);
      }
      row.keys.put(key, request);
    }
    walk.seen++;
    request.seen = round;
    if (waits) {
      walk.localities += request.localities.size();
    } else {
      review(walk, request);
    }
  }

  private Row newRow(Draft draft, ApplicationSection.Row row, SchedulerRequestKey key) {
    Row request = new Row(row.keyIndices.take(draft.monotonicMs), key, draft.resources());
    if (request.index == row.keysByIndex.size()) {
      row.keysByIndex.add(request);
      size++;
    } else {
      row.keysByIndex.set(request.index, request);
    }
    return request;
  }

  private void review(Walk walk, Row request) {
    Draft draft = walk.draft;
    ApplicationSection.Row row = walk.row;
    AppPlacementAllocator<FiCaSchedulerNode> allocator = row.app.getAppPlacementAllocator(request.key);
    PendingAsk ask = allocator == null ? PendingAsk.ZERO : allocator.getPendingAsk(ResourceRequest.ANY);
    int count = Math.max(0, ask.getCount());
    boolean changed = count != request.count;
    if (count > 0) {
      if (!ConstraintSection.review(draft, row, request, allocator.getSchedulingRequest())) {
        return;
      }
      String partition = allocator.getPrimaryRequestedNodePartition();
      boolean relax = allocator.canDelayTo(ResourceRequest.ANY);
      boolean constrained = allocator.getSchedulingRequest() != null;
      changed |= draft.copy(ask.getPerAllocationResource(), request.capability, 0);
      changed |= relax != request.relax || constrained != request.constrained || !request.partition.equals(partition);
      request.relax = relax;
      request.constrained = constrained;
      request.partition = partition == null ? "" : partition;
      row.user.partitions.add(request.partition);
    }
    if (changed) {
      row.budget.spend(UserBudget.ROW);
      setCount(draft, row, request, count);
    }
    if (count > 0) {
      reviewLocalities(walk, request, allocator.getResourceRequests());
    }
  }

  private void reviewLocalities(Walk walk, Row request, Map<String, ResourceRequest> requests) {
    int found = 0;
    for (Map.Entry<String, ResourceRequest> entry : requests.entrySet()) {
      String name = entry.getKey();
      if (ResourceRequest.ANY.equals(name)) {
        continue;
      }
      if (walk.localities == walk.mostLocalities) {
        walk.moreLocalities = true;
        break;
      }
      walk.localities++;
      if (entry.getValue().getNumContainers() <= 0) {
        continue;
      }
      Row.Locality locality = request.localities.get(name);
      if (isUnwanted(walk, name, locality == null) || locality == null && walk.row.waits(walk.draft)) {
        continue;
      }
      found++;
      review(walk, request, name, entry.getValue(), locality);
    }
    if (found < request.localities.size()) {
      removeUnseen(walk, request);
    }
  }

  /**
   * Names that no node and no rack has are of no use to the engine; some are sent, as a reason why nothing is placed.
   */
  private boolean isUnwanted(Walk walk, String name, boolean fresh) {
    if (nodes.isPlace(name)) {
      return false;
    }
    walk.row.unknownPlaces = true;
    if (++walk.unknownPlaces > UNKNOWN_PLACES) {
      return true;
    }
    walk.row.budget.spend(fresh ? walk.draft.cost(name) : 0);
    return false;
  }

  private void review(Walk walk, Row request, String name, ResourceRequest asked, Row.Locality before) {
    Row.Locality locality = before;
    if (before == null) {
      locality = new Row.Locality();
      request.localities.put(name, locality);
    }
    locality.seen = round;
    int count = asked.getNumContainers();
    boolean relax = asked.getRelaxLocality();
    if ((before == null || locality.count != count || locality.relax != relax) && !walk.row.waits(walk.draft)) {
      walk.row.budget.spend(UserBudget.ROW);
      locality.count = count;
      locality.relax = relax;
      writeLocality(walk.draft, walk.row, request, name, locality);
    }
  }

  private void removeUnseen(Walk walk, Row request) {
    for (Iterator<Map.Entry<String, Row.Locality>> all = request.localities.entrySet().iterator(); all.hasNext();) {
      Map.Entry<String, Row.Locality> entry = all.next();
      if (entry.getValue().seen != round) {
        walk.row.budget.spend(UserBudget.ROW);
        entry.getValue().count = 0;
        writeLocality(walk.draft, walk.row, request, entry.getKey(), entry.getValue());
        all.remove();
      }
    }
  }

  private static void setCount(Draft draft, ApplicationSection.Row row, Row request, int count) {
    boolean wasAsking = request.count > 0;
    boolean isAsking = count > 0;
    if (wasAsking != isAsking) {
      row.asking(isAsking ? 1 : -1);
    }
    request.count = count;
    if (count == 0) {
      request.localities.clear();
      request.constraintOf = null;
    }
    draft.section(Section.REQUESTS).i32(row.index).i32(request.index).i32(request.key.getPriority().getPriority())
        .i64(request.key.getAllocationRequestId()).i32(count).flag(request.relax).flag(request.constrained)
        .name(draft.name(request.partition)).amounts(request.capability).end();
  }

  private static void writeLocality(Draft draft, ApplicationSection.Row row, Row request, String name,
      Row.Locality locality) {
    draft.section(Section.LOCALITIES).i32(row.index).i32(request.index).name(draft.name(name)).i32(locality.count)
        .flag(locality.relax).end();
  }

  /** A request key of an application, as it was sent last. */
  static final class Row {
    /** Outstanding count at a node or rack. */
    static final class Locality {
      int count;
      boolean relax;
      long seen;
    }

    final int index;
    final SchedulerRequestKey key;
    final long[] capability;
    /** Outstanding count at ANY; 0: the engine does not know the key, nor its localities. */
    int count;
    boolean relax;
    boolean constrained;
    String partition = "";
    /** By name of node or rack. */
    final Map<String, Locality> localities = new HashMap<>();
    /** Nodes on which containers were placed for it since the last frame; only kept if there are localities. */
    final Set<NodeId> placed = new HashSet<>();
    /** The request whose constraint and allocation tags were sent; null: none were. */
    SchedulingRequest constraintOf;
    boolean dirty;
    long seen;

    Row(int index, SchedulerRequestKey key, int resources) {
      this.index = index;
      this.key = key;
      this.capability = new long[resources];
    }
  }
}
