// SPDX-License-Identifier: Apache-2.0
package io.treadle.plans;

import java.io.DataInputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;

/** The messages to and from a plan listener, as bytes (docs/plan-listener.md has every one). */
public final class Messages {
  /** Version of the protocol; both ends must have the same. */
  static final int VERSION = 2;
  /** The kind of a request for a plan; those of reports are in {@link PlanListener.Subject}. */
  public static final int KIND_PLAN = 1;
  /** Length of the listener's first message. */
  public static final int CHALLENGE_BYTES = 40;
  /** Bytes that the client chooses at random for each request. */
  public static final int NONCE_BYTES = 32;
  /** The longest body in either direction, bytes; sealed it is 16 bytes longer. */
  public static final int BODY_MAX = 256 << 10;
  static final int CHALLENGE_MAGIC = 0x54524443; // TRDC
  static final int REQUEST_MAGIC = 0x54524451; // TRDQ
  static final int ANSWER_MAGIC = 0x54524441; // TRDA
  static final int REQUEST_BYTES = 96;
  static final int ANSWER_BYTES = 44;
  static final int DIGEST_BYTES = 32;
  /** Flag of a challenge: bodies must be sealed; of a request and an answer: its body is. */
  static final int SEALED = 1;

  private Messages() {
  }

  /**
   * Checks the listener's first message.
   *
   * @throws IOException if the peer is not a listener, or has another version; the text names both
   */
  static void checkChallenge(byte[] challenge) throws IOException {
    ByteBuffer said = ByteBuffer.wrap(challenge);
    if (said.getInt() != CHALLENGE_MAGIC) {
      throw new IOException("is not a plan listener");
    }
    int version = said.get() & 0xff;
    if (version != VERSION) {
      throw new IOException("speaks version " + version + " of the plan protocol, this plug-in version " + VERSION
          + "; give jobs the jar of the sidecar's release");
    }
  }

  /** Whether bodies must be sealed. */
  static boolean sealed(byte[] challenge) {
    return (challenge[5] & SEALED) != 0;
  }

  /**
   * The bytes of a request that follows a challenge.
   *
   * @param nonce random bytes for this request alone
   * @throws IOException if the body is too long, or cannot be sealed
   */
  public static byte[] request(AttemptKey key, byte[] challenge, int kind, byte[] body, byte[] nonce)
      throws IOException {
    boolean sealed = sealed(challenge);
    if (body.length > BODY_MAX) {
      throw new IOException("a request of " + body.length + " bytes; " + BODY_MAX + " are allowed");
    }
    byte[] sent = sealed ? Sealing.seal(key, Sealing.REQUEST, challenge, nonce, body) : body;
    byte[] header = ByteBuffer.allocate(REQUEST_BYTES).putInt(REQUEST_MAGIC).put((byte) VERSION).put((byte) kind)
        .putShort((short) (sealed ? SEALED : 0)).putInt(sent.length)
        .putLong(key.attempt().getApplicationId().getClusterTimestamp())
        .putInt(key.attempt().getApplicationId().getId()).putInt(key.attempt().getAttemptId()).putInt(key.number())
        .put(digest(sent)).put(nonce).array();
    ByteBuffer whole = ByteBuffer.allocate(header.length + AttemptKey.MAC_BYTES + sent.length);
    return whole.put(header).put(key.mac(challenge, header)).put(sent).array();
  }

  /**
   * Reads the answer to a request.
   *
   * @param request all of it
   * @throws IOException if it does not answer this request
   */
  static PlanListener.Reply answer(DataInputStream in, AttemptKey key, byte[] challenge, byte[] request)
      throws IOException {
    byte[] header = new byte[ANSWER_BYTES];
    byte[] mac = new byte[AttemptKey.MAC_BYTES];
    in.readFully(header);
    in.readFully(mac);
    byte[] asked = Arrays.copyOf(request, REQUEST_BYTES);
    if (!MessageDigest.isEqual(mac, key.mac(challenge, asked, header))) {
      throw new IOException("does not know the key, or answers another request");
    }
    ByteBuffer said = ByteBuffer.wrap(header);
    int magic = said.getInt();
    int version = said.get();
    int answer = said.get();
    int flags = said.getShort();
    int length = said.getInt();
    if (magic != ANSWER_MAGIC || version != VERSION || answer < 0 || answer >= PlanListener.Answer.values().length
        || flags != (sealed(challenge) ? SEALED : 0) || length < 0
        || length > BODY_MAX + Sealing.TAG_BITS / 8) {
      throw new IOException("gave an answer that is none");
    }
    byte[] digest = new byte[DIGEST_BYTES];
    said.get(digest);
    byte[] body = new byte[length];
    in.readFully(body);
    if (!MessageDigest.isEqual(digest, digest(body))) {
      throw new IOException("gave a damaged answer");
    }
    if (sealed(challenge)) {
      byte[] nonce = Arrays.copyOfRange(asked, REQUEST_BYTES - NONCE_BYTES, REQUEST_BYTES);
      body = Sealing.unseal(key, Sealing.ANSWER, challenge, nonce, body);
    }
    return new PlanListener.Reply(PlanListener.Answer.values()[answer], body);
  }

  private static byte[] digest(byte[] body) {
    try {
      return MessageDigest.getInstance("SHA-256").digest(body);
    } catch (NoSuchAlgorithmException missing) {
      throw new IllegalStateException(missing);
    }
  }
}
