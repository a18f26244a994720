package io.treadle.shim.wire;

/** An engine's answer that is not a proposal frame. The message says which field is wrong, and how. */
public final class MalformedReplyException extends Exception {
  private static final long serialVersionUID = 1L;

  /** With the reason. */
  public MalformedReplyException(String message) {
    super(message);
  }
}
