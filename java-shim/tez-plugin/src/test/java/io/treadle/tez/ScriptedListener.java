// SPDX-License-Identifier: Apache-2.0
package io.treadle.tez;

import io.treadle.plans.PlanListener;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Queue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;

/** A plan listener with scripted answers. */
final class ScriptedListener implements PlanListener {
  final BlockingQueue<byte[]> reports = new LinkedBlockingQueue<>();
  final BlockingQueue<byte[]> descriptions = new LinkedBlockingQueue<>();
  private final CountDownLatch answers = new CountDownLatch(1);
  private final Queue<Answer> reportAnswers = new ConcurrentLinkedQueue<>();
  private final Queue<byte[]> plans = new ConcurrentLinkedQueue<>();
  private Reply plan = new Reply(Answer.NO_PLAN, new byte[0]);

  /** Lets it answer with a plan. */
  ScriptedListener planned(int... vertices) {
    return answering(Answer.OK, body(vertices));
  }

  private static byte[] body(int... vertices) {
    ByteBuffer body = ByteBuffer.allocate(4 + 4 * vertices.length).putInt(vertices.length);
    for (int vertex : vertices) {
      body.putInt(vertex);
    }
    return body.array();
  }

  /** Lets it answer its next report with another plan. */
  ScriptedListener replanning(int... vertices) {
    plans.add(body(vertices));
    return this;
  }

  /** Lets it answer. */
  ScriptedListener answering(Answer answer, byte[] body) {
    plan = new Reply(answer, body);
    answers.countDown();
    return this;
  }

  /** Lets it answer its next report otherwise than with OK. */
  ScriptedListener reporting(Answer answer) {
    reportAnswers.add(answer);
    return this;
  }

  @Override
  public Reply plan(byte[] description, long waitMs) throws IOException {
    descriptions.add(description);
    try {
      answers.await();
    } catch (InterruptedException ended) {
      throw new IOException(ended);
    }
    return plan;
  }

  @Override
  public Reply report(Subject subject, byte[] report) {
    reports.add(report);
    Answer answer = reportAnswers.poll();
    byte[] body = plans.poll();
    return new Reply(answer == null ? Answer.OK : answer, body == null ? new byte[0] : body);
  }
}
