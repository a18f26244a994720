// SPDX-License-Identifier: Apache-2.0
package io.treadle.sls;

import io.treadle.shim.link.Engine;
import io.treadle.shim.wire.ProposalFrame;
import io.treadle.sls.FirstFitModel.Application;
import io.treadle.sls.FirstFitModel.Node;
import io.treadle.sls.FirstFitModel.Request;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/**
 * The floor of the benchmark: a minimal engine in the ResourceManager's own JVM. Oldest application first, first node
 * that fits from where the last search ended. The remaining cost is that of the shim itself.
 *
 * <p>It ignores locality, shares and user limits, and requests with node constraints.
 */
public final class FirstFitEngine implements Engine {
  private final FirstFitModel model = new FirstFitModel();
  private final List<int[]> proposals = new ArrayList<>();
  /** Sizes for which the current tick has found no node, by partition and amounts. */
  private final Set<List<Long>> hopeless = new HashSet<>();
  private long epoch;
  private long lastSequence;
  private int next;

  @Override
  public byte[] decide(byte[] bytes) throws IOException {
    FrameReader frame = new FrameReader(bytes);
    boolean snapshot = frame.has(FrameReader.FLAG_SNAPSHOT);
    boolean gap = !snapshot && (frame.epoch() != epoch || frame.sequence() != lastSequence + 1);
    epoch = frame.epoch();
    lastSequence = gap ? -1 : frame.sequence();
    proposals.clear();
    if (!gap) {
      model.apply(frame);
      if (!frame.has(FrameReader.FLAG_MORE)) {
        decide(frame);
      }
    }
    return ProposalFrame.encode(gap ? ProposalFrame.FLAG_RESEND : 0, frame.epoch(), frame.sequence(),
        proposals.toArray(new int[0][]));
  }

  @Override
  public void close() {
    // holds nothing but memory
  }

  private void decide(FrameReader frame) {
    hopeless.clear();
    for (Application application : model.inOrder()) {
      if (proposals.size() >= frame.limit()) {
        return;
      }
      if (application.active && !application.requests.isEmpty()) {
        serve(application, frame);
      }
    }
  }

  private void serve(Application application, FrameReader frame) {
    for (Request request : byPriority(application)) {
      while (request.placeable && request.count > 0 && proposals.size() < frame.limit()) {
        Node node = firstFit(application, request);
        if (node == null) {
          break;
        }
        proposals.add(new int[] {application.index, request.key, node.index});
        if (frame.has(FrameReader.FLAG_OBSERVE)) {
          break;
        }
        model.assume(frame.sequence(), application, request, node);
      }
      if (application.awaitingAm) {
        return;
      }
    }
  }

  private static Iterable<Request> byPriority(Application application) {
    if (application.requests.size() == 1) {
      return application.requests.values();
    }
    List<Request> requests = new ArrayList<>(application.requests.values());
    requests.sort(Comparator.comparingInt(request -> request.priority));
    return requests;
  }

  private Node firstFit(Application application, Request request) {
    if (!model.withinMaximum(application, request.partition, request.capability)) {
      return null;
    }
    List<Long> size = size(request);
    if (hopeless.contains(size)) {
      return null;
    }
    int count = model.nodes.size();
    for (int i = 0; i < count; i++) {
      next = next + 1 >= count ? 0 : next + 1;
      Node node = model.nodes.get(next);
      if (node.usable && node.partition == request.partition && model.fits(request.capability, node)
          && !application.blacklist.contains(node.name) && !application.blacklist.contains(node.rack)) {
        return node;
      }
    }
    if (application.blacklist.isEmpty()) {
      hopeless.add(size);
    }
    return null;
  }

  private static List<Long> size(Request request) {
    List<Long> size = new ArrayList<>(request.capability.length + 1);
    size.add((long) request.partition);
    for (long amount : request.capability) {
      size.add(amount);
    }
    return size;
  }
}
