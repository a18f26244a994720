package io.treadle.shim.mirror;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.security.token.Token;
import org.apache.hadoop.yarn.security.AMRMTokenIdentifier;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CSQueue;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.common.fica.FiCaSchedulerApp;
import org.apache.hadoop.yarn.server.scheduler.SchedulerRequestKey;

/** An application attempt, as it was sent last. */
final class ApplicationRow {
  static final int GONE = 0;
  static final int ACTIVE = 1;
  static final int WAITING = 2;
  /** It runs on, served by another engine. */
  static final int MOVED = 3;

  final int index;
  final FiCaSchedulerApp app;
  CSQueue queue;
  UserSection.Row user;
  int queueIndex;
  int priority;
  int state = GONE;
  boolean awaitingAm;
  /** What the APPLICATIONS row of this frame has to replace; the row is due if {@link #dirty}. */
  int replaces;
  boolean dirty;
  boolean usageDirty;
  /** Whether another engine served it before. */
  boolean takenOver;
  final Map<SchedulerRequestKey, KeyRow> keys = new HashMap<>();
  final List<KeyRow> keysByIndex = new ArrayList<>();
  /** How many of its keys have outstanding requests. */
  int askingKeys;
  Set<String> blacklist = new HashSet<>();
  int containers = -1;
  /** The token whose key was sent last. */
  Token<AMRMTokenIdentifier> keyToken;
  final long[] used;
  final long[] headroom;

  ApplicationRow(int index, FiCaSchedulerApp app, int resources) {
    this.index = index;
    this.app = app;
    this.used = new long[resources];
    this.headroom = new long[resources];
  }

  /** Whether the engine still serves it. */
  boolean isServed() {
    return state == ACTIVE || state == WAITING;
  }

  /** One key more, or one less, has outstanding requests. */
  void asking(int change) {
    boolean before = askingKeys > 0;
    askingKeys += change;
    if (before != askingKeys > 0) {
      user.asking(change);
    }
  }
}
