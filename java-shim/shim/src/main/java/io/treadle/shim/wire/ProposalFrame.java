package io.treadle.shim.wire;

/** An engine's answer, decoded. Reading checks the form only; what it proposes is checked at commit time. */
public final class ProposalFrame {
  // to be written: parse(byte[] bytes, int maxRows) throws MalformedReplyException; epoch(), sequence(), decideMicros(),
  // resend(), size(), application(i), requestKey(i), node(i), status()
}
