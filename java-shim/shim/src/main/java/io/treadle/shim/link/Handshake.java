// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.link;

import java.io.DataInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InterruptedIOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.SecureRandom;
import javax.crypto.Mac;
import org.apache.commons.codec.digest.HmacAlgorithms;
import org.apache.commons.codec.digest.HmacUtils;

/**
 * Mutual proof of the RM and its sidecar that they know their secret, before anything else is sent on a connection
 * (docs/wire-format.md has every byte). The secret itself is never sent. The codes are over the nonces of both ends,
 * the role of the prover, and the address and port that were dialled, so that they are invalid on another connection,
 * another port or in the other direction. Immutable.
 */
final class Handshake {
  /** Both ends must have the same. */
  static final int VERSION = 1;
  static final int NONCE_BYTES = 32;
  static final int CODE_BYTES = 32;
  /** Length of the sidecar's message. */
  static final int ANSWER_BYTES = 8 + NONCE_BYTES + CODE_BYTES;

  private static final int MAGIC = 0x54524448; // TRDH
  private static final int OPENING_BYTES = 8;
  private static final byte[] SIDECAR = "treadle sidecar".getBytes(StandardCharsets.US_ASCII);
  private static final byte[] RESOURCE_MANAGER = "treadle resourcemanager".getBytes(StandardCharsets.US_ASCII);
  private static final SecureRandom RANDOM = new SecureRandom();

  private final Py4jEngine.Endpoint endpoint;
  private final byte[] limits;

  /**
   * Prepares the proof, and the values that are sent after it.
   *
   * @param endpoint the sidecar's address, and the secret
   * @param frameMaxBytes the longest frame that will be sent
   * @param replyMaxBytes the longest proposal frame that is accepted
   */
  Handshake(Py4jEngine.Endpoint endpoint, int frameMaxBytes, int replyMaxBytes) {
    this.endpoint = endpoint;
    this.limits = ByteBuffer.allocate(8).putInt(frameMaxBytes).putInt(replyMaxBytes).array();
  }

  /**
   * Proves the secret on a new connection and has it proved.
   *
   * @throws IOException if the other end does not know the secret, or speaks another version; nothing but a nonce was
   *     sent to it then
   */
  void perform(InputStream in, OutputStream out) throws IOException {
    byte[] nonce = new byte[NONCE_BYTES];
    RANDOM.nextBytes(nonce);
    byte[] hello = hello(nonce);
    out.write(hello);
    out.flush();
    byte[] answer = new byte[OPENING_BYTES + NONCE_BYTES];
    byte[] code = new byte[CODE_BYTES];
    DataInputStream data = new DataInputStream(in);
    read(data, answer, 0, OPENING_BYTES);
    checkOpening(answer);
    read(data, answer, OPENING_BYTES, NONCE_BYTES);
    read(data, code, 0, CODE_BYTES);
    if (!MessageDigest.isEqual(code, sidecarCode(hello, answer))) {
      throw new IOException("the process that listens at " + endpoint
          + " does not know the sidecar's secret: the sidecar"
          + " is gone and another process has its port; nothing was sent to it");
    }
    out.write(proof(hello, answer));
    out.flush();
  }

  private void read(DataInputStream in, byte[] bytes, int offset, int length) throws IOException {
    try {
      in.readFully(bytes, offset, length);
    } catch (InterruptedIOException late) {
      throw late;
    } catch (IOException gone) {
      // Not as the cause, since the innermost one is reported.
      throw new IOException("the process that listens at " + endpoint
          + " closed the connection before it had proved that"
          + " it knows the sidecar's secret");
    }
  }

  private void checkOpening(byte[] answer) throws IOException {
    ByteBuffer said = ByteBuffer.wrap(answer);
    if (said.getInt() != MAGIC) {
      throw new IOException("the process that listens at " + endpoint + " is not a sidecar of this release: it does not"
          + " know the handshake; nothing was sent to it");
    }
    int version = said.get() & 0xff;
    if (version != VERSION) {
      throw new IOException("the sidecar at " + endpoint + " speaks version " + version + " of the handshake, the shim"
          + " version " + VERSION + ": give both the same release of Treadle");
    }
  }

  /** The first message. */
  static byte[] hello(byte[] nonce) {
    return ByteBuffer.allocate(OPENING_BYTES + NONCE_BYTES).putInt(MAGIC).put((byte) VERSION).put(new byte[3])
        .put(nonce).array();
  }

  /** What proves a sidecar that answered so. */
  byte[] sidecarCode(byte[] hello, byte[] answer) {
    return code(SIDECAR, hello, answer, new byte[0]);
  }

  /** The third message: the limits, and what proves the RM. */
  byte[] proof(byte[] hello, byte[] answer) {
    return ByteBuffer.allocate(limits.length + CODE_BYTES).put(limits)
        .put(code(RESOURCE_MANAGER, hello, answer, limits)).array();
  }

  private byte[] code(byte[] role, byte[] hello, byte[] answer, byte[] said) {
    byte[] address = endpoint.address.getAddress();
    Mac mac = HmacUtils.getInitializedMac(HmacAlgorithms.HMAC_SHA_256, endpoint.secret);
    mac.update(role);
    mac.update((byte) address.length);
    mac.update(address);
    mac.update((byte) (endpoint.port >> 8));
    mac.update((byte) endpoint.port);
    mac.update(hello);
    mac.update(answer);
    return mac.doFinal(said);
  }
}
