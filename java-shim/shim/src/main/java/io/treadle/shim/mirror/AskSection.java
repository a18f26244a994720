// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.mirror;

import io.treadle.shim.Cap;
import io.treadle.shim.ConstraintText;
import io.treadle.shim.wire.Section;
import io.treadle.shim.wire.SectionWriter;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.commons.lang3.reflect.FieldUtils;
import org.apache.hadoop.yarn.api.records.ResourceRequest;
import org.apache.hadoop.yarn.api.records.SchedulingRequest;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.AppSchedulingInfo;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.PendingAsk;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerNode;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.placement.AppPlacementAllocator;
import org.apache.hadoop.yarn.server.scheduler.SchedulerRequestKey;

/**
 * Writes outstanding requests, their localities and constraints, and the blacklisted nodes and racks, always as the
 * difference to the last ones sent. Requests to change a container are left out: the shim serves them itself. A bounded
 * number of the keys and names of an application and of a user ({@link Cap}) is in the engine; the others follow as
 * these are served. Containers placed cost one row a request key and frame, however many they are.
 */
final class AskSection {
  /** So many names of an application that no node and no rack has are sent. */
  private static final int UNKNOWN_PLACES = 4;
  /**
   * A key with a lower index keeps it for the attempt's life, so that a key that comes again is known; higher indices,
   * and those of a user who has too many such keys, are used again for other keys.
   */
  static final int KEPT_INDICES = 1 << 12;

  /** So many request keys of an application are looked at for one frame. */
  private static final int SLICE = 125;
  /** Which value of a row of requests is the count. */
  private static final int COUNT = 4;

  private final Set<Row> placed = new LinkedHashSet<>();
  private final NodeSection nodes;
  private long round;

  AskSection(NodeSection nodes) {
    this.nodes = nodes;
  }

  void reset() {
    placed.clear();
  }

  /** A container was placed for a request key. */
  void placed(ApplicationSection.Row app, ContainerStep step) {
    Row request = step.requestKey == null ? null : app.keys.get(step.requestKey);
    if (request != null) {
      placed.add(request);
      if (!request.localities.isEmpty() && step.place != null) {
        request.placed.addAll(step.place.names);
      }
    }
  }

  /**
   * Writes what changed by containers placed.
   *
   * @return applications that have to be looked at: others of their requests have room now
   */
  Set<ApplicationSection.Row> writePlaced(Draft draft) {
    Set<ApplicationSection.Row> withRoom = new LinkedHashSet<>();
    for (Row request : placed) {
      // a key with count 0 is for a review: it may be beyond the limit
      if (request.app.lives() && request.count() > 0) {
        AppPlacementAllocator<FiCaSchedulerNode> allocator = request.app.app.getAppPlacementAllocator(request.key);
        int count = allocator == null ? 0 : allocator.getOutstandingAsksCount(ResourceRequest.ANY);
        if (count != request.count()) {
          setCount(draft, request, count);
        }
        if (count > 0) {
          request.placed.forEach(name -> writePlaced(draft, request, name, allocator));
        } else if (request.app.exceeded.contains(Cap.REQUEST_KEYS)) {
          withRoom.add(request.app);
        }
      }
      request.placed.clear();
    }
    placed.clear();
    return withRoom;
  }

  private static void writePlaced(Draft draft, Row request, String name,
      AppPlacementAllocator<FiCaSchedulerNode> allocator) {
    Locality locality = request.localities.get(name);
    int count = locality == null ? 0 : Math.max(0, allocator.getOutstandingAsksCount(name));
    if (locality != null && count != locality.count) {
      locality.count = count;
      write(draft, request, name, locality);
      if (count == 0) {
        request.localities.remove(name);
      }
    }
  }

  /**
   * Compares the next {@value #SLICE} requests of an application with those sent, in a snapshot all; as many as it may
   * have there.
   *
   * @return whether none is left
   */
  boolean review(Draft draft, ApplicationSection.Row app) {
    Walk walk = app.walk == null ? new Walk(app, ++round) : app.walk;
    int looked = walk.looked;
    // with what other applications of the user have taken since the latest slice
    int most = app.room(Cap.REQUEST_KEYS);
    walk.mostLocalities = app.room(Cap.LOCALITIES);
    int until = draft.snapshot ? most : Math.min(most, looked + SLICE);
    walk.draft = draft;
    while (walk.looked < until && walk.keys.hasNext()) {
      SchedulerRequestKey key = walk.keys.next();
      walk.looked++;
      if (key.getContainerToUpdate() == null) {
        review(walk, key);
      }
    }
    app.budget.spend((long) UserBudget.KEY * (walk.looked - looked));
    boolean ended = walk.looked >= most || !walk.keys.hasNext();
    app.walk = ended ? null : walk;
    app.stands(Cap.REQUEST_KEYS, walk.looked, walk.keys.hasNext(), ended);
    app.stands(Cap.LOCALITIES, walk.localities, walk.moreLocalities, ended);
    if (ended) {
      removeUnseen(walk);
    }
    return ended;
  }

  private void removeUnseen(Walk walk) {
    ApplicationSection.Row app = walk.app;
    Draft draft = walk.draft;
    app.current.removeIf(request -> {
      if (request.seen != walk.round) {
        if (request.count() > 0) {
          app.budget.spend(UserBudget.ROW);
          setCount(draft, request, 0);
        }
        request.seen = 0;
        if (request.index >= KEPT_INDICES || !app.budget.keeps(0)) {
          app.keys.remove(request.key);
          app.keysByIndex.remove(request.index, draft.monotonicMs);
        } else {
          app.budget.keeps(1);
        }
      }
      return request.seen == 0;
    });
  }

  /** One look at the requests of an application, of several frames if there are many; the set of keys allows that. */
  static final class Walk {
    private final ApplicationSection.Row app;
    private final long round;
    private final Iterator<SchedulerRequestKey> keys;
    private int mostLocalities;
    private Draft draft;
    private int looked;
    private int localities;
    private boolean moreLocalities;
    private int unknownPlaces;

    Walk(ApplicationSection.Row app, long round) {
      this.app = app;
      this.round = round;
      keys = app.app.getSchedulerKeys().iterator();
    }
  }

  private void review(Walk walk, SchedulerRequestKey key) {
    ApplicationSection.Row app = walk.app;
    Row request = app.keys.get(key);
    boolean waits = app.waits(walk.draft);
    if (request == null && waits) {
      return;
    }
    if (request == null) {
      request = app.keysByIndex.add(index -> new Row(index, app, key), walk.draft.monotonicMs);
      app.keys.put(key, request);
    } else if (request.seen == 0) {
      app.budget.keeps(-1);
    }
    if (request.seen == 0) {
      app.current.add(request);
    }
    request.seen = walk.round;
    if (waits) {
      walk.localities += request.localities.size();
    } else {
      review(walk, request);
    }
  }

  private void review(Walk walk, Row request) {
    Draft draft = walk.draft;
    AppPlacementAllocator<FiCaSchedulerNode> allocator = walk.app.app.getAppPlacementAllocator(request.key);
    PendingAsk ask = allocator == null ? PendingAsk.ZERO : allocator.getPendingAsk(ResourceRequest.ANY);
    String label = ask.getCount() == 0 ? null : allocator.getPrimaryRequestedNodePartition();
    String partition = label == null ? "" : label;
    // users can make up labels, by which nothing can be placed
    int count = draft.partitions.contains(partition) ? Math.max(0, ask.getCount()) : 0;
    if (count == 0 && request.count() > 0) {
      walk.app.budget.spend(UserBudget.ROW);
      setCount(draft, request, 0);
    } else if (count > 0 && writeConstraint(draft, request, allocator.getSchedulingRequest())) {
      walk.app.user.partitions.add(partition);
      long[] now = draft.section(Section.REQUESTS).add(walk.app.index).add(request.index)
          .add(request.key.getPriority().getPriority()).add(request.key.getAllocationRequestId()).add(count)
          .flag(allocator.canDelayTo(ResourceRequest.ANY)).flag(allocator.getSchedulingRequest() != null)
          .add(draft.name(partition)).amounts(ask.getPerAllocationResource()).rowIfOther(request.sent);
      if (now != null) {
        walk.app.budget.spend(UserBudget.ROW);
        write(draft, request, now);
      }
      reviewLocalities(walk, request, allocator.getResourceRequests());
    }
  }

  /** Writes that another number is outstanding of a request that was sent. */
  private static void setCount(Draft draft, Row request, int count) {
    long[] values = request.sent.clone();
    values[COUNT] = count;
    write(draft, request, values);
  }

  private static void write(Draft draft, Row request, long[] values) {
    boolean wasAsking = request.count() > 0;
    request.sent = values;
    boolean isAsking = request.count() > 0;
    if (wasAsking != isAsking) {
      request.app.asking(isAsking ? 1 : -1);
    }
    if (!isAsking) {
      request.localities.clear();
      request.constraintOf = null;
    }
    draft.section(Section.REQUESTS).write(values);
  }

  private void reviewLocalities(Walk walk, Row request, Map<String, ResourceRequest> requests) {
    int found = 0;
    for (Map.Entry<String, ResourceRequest> entry : requests.entrySet()) {
      String name = entry.getKey();
      if (ResourceRequest.ANY.equals(name)) {
        continue;
      }
      if (walk.localities >= walk.mostLocalities) {
        walk.moreLocalities = true;
        break;
      }
      walk.localities++;
      if (entry.getValue().getNumContainers() <= 0) {
        continue;
      }
      Locality locality = request.localities.get(name);
      if (isUnwanted(walk, name, locality == null) || locality == null && walk.app.waits(walk.draft)) {
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
    if (nodes.places().contains(name)) {
      return false;
    }
    walk.app.unknownPlaces = true;
    if (++walk.unknownPlaces > UNKNOWN_PLACES || fresh && !walk.app.budget.hasTexts(0)) {
      return true;
    }
    walk.app.budget.spend(fresh ? walk.draft.cost(name) : 0);
    return false;
  }

  private void review(Walk walk, Row request, String name, ResourceRequest asked, Locality before) {
    Locality locality = before == null ? new Locality() : before;
    locality.seen = walk.round;
    int count = asked.getNumContainers();
    boolean relax = asked.getRelaxLocality();
    if ((before == null || locality.count != count || locality.relax != relax) && !walk.app.waits(walk.draft)) {
      walk.app.budget.spend(UserBudget.ROW);
      locality.count = count;
      locality.relax = relax;
      request.localities.put(name, locality);
      write(walk.draft, request, name, locality);
    }
  }

  private void removeUnseen(Walk walk, Row request) {
    for (Iterator<Map.Entry<String, Locality>> all = request.localities.entrySet().iterator(); all.hasNext();) {
      Map.Entry<String, Locality> entry = all.next();
      if (entry.getValue().seen != walk.round) {
        walk.app.budget.spend(UserBudget.ROW);
        entry.getValue().count = 0;
        write(walk.draft, request, entry.getKey(), entry.getValue());
        all.remove();
      }
    }
  }

  private static void write(Draft draft, Row request, String name, Locality locality) {
    draft.section(Section.LOCALITIES).add(request.app.index).add(request.index)
        .add(draft.name(name, request.app)).add(locality.count).flag(locality.relax).end();
  }

  /**
   * Writes the constraint of a request if it is another than before. An application gives it when it registers, so it
   * is read once for each request; a constraint of the cluster that changes later is seen with the next snapshot.
   *
   * @return false if the request has to wait for that
   */
  private static boolean writeConstraint(Draft draft, Row request, SchedulingRequest asked) {
    if (asked == null || asked == request.constraintOf) {
      return true;
    }
    if (request.app.waits(draft)) {
      return false;
    }
    request.constraintOf = asked;
    ConstraintText constraint = request.app.budget.hasTexts(0)
        ? ConstraintText.of(draft.context, request.app.app.getApplicationId(), asked) : ConstraintText.OPAQUE;
    request.app.budget.spend(UserBudget.ROW + draft.cost(constraint.text) + constraint.bytes / UserBudget.BYTES);
    draft.section(Section.CONSTRAINTS).add(request.app.index).add(request.index)
        .add(draft.name(constraint.text, request.app)).flag(constraint.text == null).end();
    SectionWriter tags = draft.section(Section.ALLOCATION_TAGS);
    for (String tag : constraint.tags) {
      request.app.budget.spend(UserBudget.ROW + draft.cost(tag));
      tags.add(request.app.index).add(request.index).add(draft.name(tag, request.app)).end();
    }
    return true;
  }

  /** Writes the changes of an application's blacklist. */
  void reviewBlacklist(Draft draft, ApplicationSection.Row app) {
    if (app.waits(draft)) {
      return;
    }
    int most = app.room(Cap.BLACKLISTED_NAMES);
    Set<String> all = blacklist(app);
    app.stands(Cap.BLACKLISTED_NAMES, Math.min(all.size(), most), all.size() > most, true);
    app.blacklist.stream().filter(name -> !all.contains(name))
        .forEach(name -> writeBlacklisted(draft, app, name, false));
    app.blacklist.retainAll(all);
    for (String name : all) {
      if (app.blacklist.size() < most && !app.blacklist.contains(name) && !app.waits(draft)) {
        app.blacklist.add(name);
        writeBlacklisted(draft, app, name, true);
      }
    }
  }

  private static void writeBlacklisted(Draft draft, ApplicationSection.Row app, String name, boolean present) {
    app.budget.spend(UserBudget.ROW);
    draft.section(Section.BLACKLIST).add(app.index).add(draft.name(name)).flag(present).end();
  }

  /**
   * Those names of a blacklist that a node or a rack has. While an attempt waits for its AM container the RM's own list
   * counts, of nodes on which earlier attempts failed, which can only be asked about single names; afterwards the AM's,
   * which is asked about single names, too, if it is long. Such a look leaves steps for the names that it finds.
   */
  private Set<String> blacklist(ApplicationSection.Row app) {
    if (app.awaitingAm && app.app.getApplicationAttemptId().getAttemptId() == 1) {
      return Collections.emptySet();
    }
    AppSchedulingInfo info = app.app.getAppSchedulingInfo();
    int names = blacklistedByAm(info);
    boolean isLong = app.awaitingAm || names > Cap.BLACKLISTED_NAMES.ofApplication;
    app.budget.spend(isLong ? Math.min(nodes.places().size(), 100 * UserBudget.ROW) : names);
    app.unknownPlaces |= isLong;
    if (isLong) {
      return nodes.places().stream().filter(name -> info.isPlaceBlacklisted(name, app.awaitingAm))
          .collect(Collectors.toSet());
    }
    Set<String> all = info.getBlackListCopy();
    app.unknownPlaces |= all.removeIf(name -> !nodes.places().contains(name));
    return all;
  }

  /** The length of an AM's blacklist, which has no method to read it without a copy. */
  private static int blacklistedByAm(AppSchedulingInfo info) {
    try {
      return ((Set<?>) FieldUtils.readField(info, "placesBlacklistedByApp", true)).size();
    } catch (IllegalAccessException | RuntimeException e) {
      return Integer.MAX_VALUE;
    }
  }

  /** Outstanding count at a node or rack. */
  private static final class Locality {
    private int count;
    private boolean relax;
    private long seen;
  }

  /** A request key of an application, as it was sent last. */
  static final class Row {
    final int index;
    final SchedulerRequestKey key;
    private final ApplicationSection.Row app;
    /** The row that was sent last. */
    private long[] sent;
    /** By name of node or rack. */
    private final Map<String, Locality> localities = new HashMap<>();
    /** Names of the nodes and racks where containers were placed for it since the last frame, of its localities. */
    private final Set<String> placed = new HashSet<>();
    /** The request whose constraint and allocation tags were sent; null: none were. */
    private SchedulingRequest constraintOf;
    /** The latest look that has found it; 0: none has since it had gone. */
    private long seen;

    Row(int index, ApplicationSection.Row app, SchedulerRequestKey key) {
      this.index = index;
      this.app = app;
      this.key = key;
    }

    /** Outstanding count at ANY; 0: the engine does not know the key, nor its localities. */
    private int count() {
      return sent == null ? 0 : (int) sent[COUNT];
    }
  }
}
