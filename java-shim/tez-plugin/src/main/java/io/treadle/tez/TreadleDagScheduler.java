// SPDX-License-Identifier: Apache-2.0
package io.treadle.tez;

import org.apache.hadoop.yarn.event.EventHandler;
import org.apache.tez.dag.app.dag.DAG;
import org.apache.tez.dag.app.dag.DAGScheduler;
import org.apache.tez.dag.app.dag.event.DAGEventSchedulerUpdate;
import org.apache.tez.dag.app.dag.impl.DAGSchedulerNaturalOrder;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The value of {@code tez.am.dag.scheduler.class}: Tez's natural order, or the order of a plan.
 *
 * <p>A scheduler that cannot be loaded fails each DAG, so this class needs nothing that natural order does not need.
 * All else is loaded by name, and whatever is thrown there ends in natural order.
 */
@SuppressWarnings("rawtypes")
public final class TreadleDagScheduler extends DAGSchedulerNaturalOrder {
  private static final Logger LOG = LoggerFactory.getLogger(TreadleDagScheduler.class);
  private static final String PLANNED = "io.treadle.tez.PlannedScheduler";

  /** Null: natural order. */
  private DAGScheduler planned;

  /** Called by Tez for each DAG. */
  public TreadleDagScheduler(DAG dag, EventHandler dispatcher) {
    super(dag, dispatcher);
    try {
      planned = (DAGScheduler) Class.forName(PLANNED, true, TreadleDagScheduler.class.getClassLoader())
          .getConstructor(DAG.class, EventHandler.class).newInstance(dag, dispatcher);
    } catch (Throwable problem) {
      giveUp(problem);
    }
  }

  @Override
  public void scheduleTaskEx(DAGEventSchedulerUpdate event) {
    if (planned != null) {
      try {
        planned.scheduleTaskEx(event);
        return;
      } catch (Throwable problem) {
        giveUp(problem);
      }
    }
    super.scheduleTaskEx(event);
  }

  @Override
  public void taskCompletedEx(DAGEventSchedulerUpdate event) {
    if (planned != null) {
      try {
        planned.taskCompletedEx(event);
      } catch (Throwable problem) {
        giveUp(problem);
      }
    }
  }

  private void giveUp(Throwable problem) {
    LOG.warn("Treadle gives no order to this DAG's tasks from here on; natural order", problem);
    planned = null;
  }
}
