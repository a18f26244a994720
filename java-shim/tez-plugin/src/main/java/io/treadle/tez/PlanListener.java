package io.treadle.tez;

import java.io.IOException;

/** Whoever makes plans and takes reports; {@link RemotePlanListener} is. */
interface PlanListener {
  /** What became of a request. */
  enum Answer {
    /** Done. */
    OK,
    /** There are too many requests at the moment. */
    BUSY,
    /** There is no plan for this DAG. */
    NO_PLAN,
    /** A report is of a DAG that the listener does not know: it has to be asked for a plan first. */
    UNKNOWN_DAG,
    /** The request is not one. */
    REFUSED
  }

  /** An answer and what came with it. */
  final class Reply {
    private final Answer answer;
    private final byte[] body;

    Reply(Answer answer, byte[] body) {
      this.answer = answer;
      this.body = body;
    }

    Answer answer() {
      return answer;
    }

    byte[] body() {
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
  Reply report(byte[] report) throws IOException;
}
