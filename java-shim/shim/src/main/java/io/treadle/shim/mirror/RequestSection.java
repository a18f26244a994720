package io.treadle.shim.mirror;

import io.treadle.shim.Caps;
import io.treadle.shim.wire.Section;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
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
 * change a container are left out: the shim serves them itself. Of an application at most {@value Caps#REQUEST_KEYS}
 * keys are outstanding in the engine; the others follow as these are served. Containers placed cost one row a request
 * key and frame, however many they are.
 */
final class RequestSection {
  private final List<Row> dirty = new ArrayList<>();
  private final List<ApplicationSection.Row> owners = new ArrayList<>();
  private final NodeSection nodes;
  private long round;
  private int size;

  RequestSection(NodeSection nodes) {
    this.nodes = nodes;
  }

  void reset() {
    dirty.clear();
    owners.clear();
    size = 0;
  }

  /** How many indices of request keys were given out. */
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

  /** Writes what changed by containers placed. */
  void writePlaced(Draft draft) {
    Set<ApplicationSection.Row> withRoom = new HashSet<>();
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
        } else if (row.moreKeys) {
          withRoom.add(row);
        }
      }
      request.placed.clear();
    }
    dirty.clear();
    owners.clear();
    withRoom.forEach(row -> review(draft, row));
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

  /** Compares the requests of an application with what was sent. */
  void review(Draft draft, ApplicationSection.Row row) {
    round++;
    int asked = 0;
    int looked = 0;
    row.moreKeys = false;
    for (SchedulerRequestKey key : row.app.getSchedulerKeys()) {
      if (key.getContainerToUpdate() != null) {
        continue;
      }
      if (looked++ == Caps.REQUEST_KEYS) {
        row.moreKeys = true;
        break;
      }
      Row request = row.keys.get(key);
      if (request == null) {
        request = new Row(row.keysByIndex.size(), key, draft.resources());
        row.keys.put(key, request);
        row.keysByIndex.add(request);
        size++;
      }
      request.seen = round;
      review(draft, row, request);
      asked += request.count > 0 ? 1 : 0;
    }
    row.reportCaps(draft);
    if (asked == row.askingKeys) {
      return;
    }
    for (Row request : row.keysByIndex) {
      if (request.seen != round && request.count > 0) {
        setCount(draft, row, request, 0);
      }
    }
  }

  private void review(Draft draft, ApplicationSection.Row row, Row request) {
    AppPlacementAllocator<FiCaSchedulerNode> allocator = row.app.getAppPlacementAllocator(request.key);
    PendingAsk ask = allocator == null ? PendingAsk.ZERO : allocator.getPendingAsk(ResourceRequest.ANY);
    int count = Math.max(0, ask.getCount());
    boolean changed = count != request.count;
    if (count > 0) {
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
      setCount(draft, row, request, count);
    }
    if (count > 0 && request.constrained) {
      ConstraintSection.review(draft, row, request, allocator.getSchedulingRequest());
    }
    if (count > 0) {
      reviewLocalities(draft, row, request, allocator.getResourceRequests());
    }
  }

  private void reviewLocalities(Draft draft, ApplicationSection.Row row, Row request,
      Map<String, ResourceRequest> requests) {
    int found = 0;
    for (Map.Entry<String, ResourceRequest> entry : requests.entrySet()) {
      String name = entry.getKey();
      int count = entry.getValue().getNumContainers();
      if (count <= 0 || ResourceRequest.ANY.equals(name)) {
        continue;
      }
      found++;
      boolean relax = entry.getValue().getRelaxLocality();
      Row.Locality locality = request.localities.get(name);
      boolean fresh = locality == null;
      if (fresh) {
        locality = new Row.Locality();
        request.localities.put(name, locality);
      }
      locality.seen = round;
      if (fresh || locality.count != count || locality.relax != relax) {
        locality.count = count;
        locality.relax = relax;
        writeLocality(draft, row, request, name, locality);
      }
    }
    if (found == request.localities.size()) {
      return;
    }
    for (Iterator<Map.Entry<String, Row.Locality>> all = request.localities.entrySet().iterator(); all.hasNext();) {
      Map.Entry<String, Row.Locality> entry = all.next();
      if (entry.getValue().seen != round) {
        entry.getValue().count = 0;
        writeLocality(draft, row, request, entry.getKey(), entry.getValue());
        all.remove();
      }
    }
  }

  private static void setCount(Draft draft, ApplicationSection.Row row, Row request, int count) {
    if (request.count == 0 != (count == 0)) {
      row.asking(count > 0 ? 1 : -1);
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
