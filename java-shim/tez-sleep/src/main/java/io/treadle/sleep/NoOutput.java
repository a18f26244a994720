package io.treadle.sleep;

import java.util.Collections;
import java.util.List;
import org.apache.tez.runtime.api.AbstractLogicalOutput;
import org.apache.tez.runtime.api.Event;
import org.apache.tez.runtime.api.OutputContext;
import org.apache.tez.runtime.api.Writer;

/** The sending end of an edge over which nothing goes. */
public final class NoOutput extends AbstractLogicalOutput {
  /** Called by Tez. */
  public NoOutput(OutputContext context, int physicalOutputs) {
    super(context, physicalOutputs);
  }

  @Override
  public List<Event> initialize() {
    // Tez wants to be asked, if for nothing.
    getContext().requestInitialMemory(0, null);
    return Collections.emptyList();
  }

  @Override
  public void start() {
    // Nothing to write.
  }

  @Override
  public Writer getWriter() {
    throw new UnsupportedOperationException("nothing goes over this edge");
  }

  @Override
  public void handleEvents(List<Event> events) {
    // No input sends any.
  }

  @Override
  public List<Event> close() {
    return Collections.emptyList();
  }
}
