// SPDX-License-Identifier: Apache-2.0
package io.treadle.plans;

import java.io.IOException;

/** What makes plans and takes reports: {@link RemotePlanListener}. */
public interface PlanListener {
  /** The outcome of a request. */
  enum Answer {
    /** Done. */
    OK,
    /** There are too many requests at the moment. */
    BUSY,
    /** There is no plan for this DAG. */
    NO_PLAN,
    /** A report goes on with something that the listener does not know (any more): report it from the start. */
    UNKNOWN,
    /** The request is not one. */
    REFUSED
  }

  /** What a report is of; the number is that of its kind of request. */
  enum Subject {
    /** A DAG that a plan was asked for. */
    DAG(2),
    /** The stages of a Spark application. */
    STAGES(3);

    private final int kind;

    Subject(int kind) {
      this.kind = kind;
    }

    int kind() {
      return kind;
    }
  }

  /** An answer and what came with it. */
  final class Reply {
    private final Answer answer;
    private final byte[] body;

    /** An answer; the body is not copied. */
    public Reply(Answer answer, byte[] body) {
      this.answer = answer;
      this.body = body;
    }

    /** The outcome of the request. */
    public Answer answer() {
      return answer;
    }

    /** What came with it; not copied. */
    public byte[] body() {
      return body;
    }
  }

  /**
   * Asks for a DAG's plan, until there is an answer or the time is over.
   *
   * @param description of the DAG, encoded
   * @param waitMs how long to try, milliseconds
   * @throws IOException if there was no answer
   */
  Reply plan(byte[] description, long waitMs) throws IOException;

  /**
   * Reports, once.
   *
   * @throws IOException if there was no answer
   */
  Reply report(Subject subject, byte[] report) throws IOException;
}
