// SPDX-License-Identifier: Apache-2.0
package io.treadle.stock;

import io.treadle.shim.link.Engine;
import io.treadle.shim.wire.ProposalFrame;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.StubbedScheduler;

/**
 * An engine in the ResourceManager's JVM without a mind of its own: it proposes what a {@link StubbedScheduler} wishes
 * to have placed, and reports when the proposals have been committed or turned down, which is when the next frame
 * comes.
 */
public final class StubEngine implements Engine {
  private static final int FLAG_MORE = 2;
  private static final int FLAG_OBSERVE = 4;
  private static final int FLAGS_AT = 6;
  private static final int EPOCH_AT = 8;
  private static final int SEQUENCE_AT = 16;
  private static final int LIMIT_AT = 36;

  /** Made by the link, by this class's name. */
  public StubEngine() {
  }

  @Override
  public byte[] decide(byte[] frame) throws IOException {
    ByteBuffer header = ByteBuffer.wrap(frame).order(ByteOrder.LITTLE_ENDIAN);
    int flags = header.getShort(FLAGS_AT);
    long sequence = header.getLong(SEQUENCE_AT);
    int limit = header.getInt(LIMIT_AT);
    boolean mayPropose = (flags & (FLAG_MORE | FLAG_OBSERVE)) == 0 && limit > 0;
    int[][] proposals = mayPropose ? StubbedScheduler.ofThisLink().wishes() : new int[0][];
    return ProposalFrame.encode(0, header.getLong(EPOCH_AT), sequence, proposals);
  }

  @Override
  public void close() {
    // holds nothing
  }
}
