package io.treadle.sleep;

import java.util.Collections;
import java.util.List;
import org.apache.tez.runtime.api.AbstractLogicalInput;
import org.apache.tez.runtime.api.Event;
import org.apache.tez.runtime.api.InputContext;
import org.apache.tez.runtime.api.Reader;

/** The receiving end of an edge over which nothing comes. */
public final class NoInput extends AbstractLogicalInput {
  /** Called by Tez. */
  public NoInput(InputContext context, int physicalInputs) {
    super(context, physicalInputs);
  }

  @Override
  public List<Event> initialize() {
    // Tez wants to be asked, if for nothing.
    getContext().requestInitialMemory(0, null);
    return Collections.emptyList();
  }

  @Override
  public void start() {
    // Nothing to fetch.
  }

  @Override
  public Reader getReader() {
    throw new UnsupportedOperationException("nothing comes over this edge");
  }

  @Override
  public void handleEvents(List<Event> events) {
    // No output sends any.
  }

  @Override
  public List<Event> close() {
    return Collections.emptyList();
  }
}
