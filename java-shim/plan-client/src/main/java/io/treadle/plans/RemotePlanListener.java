// SPDX-License-Identifier: Apache-2.0
package io.treadle.plans;

import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.OutputStream;
import java.net.ConnectException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.UnknownHostException;
import java.security.SecureRandom;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The plan listeners of the cluster's ResourceManagers, of which one answers (docs/plan-listener.md has every byte). A
 * connection carries one request: the codes of both directions are over the listener's challenge, the request and its
 * nonce, so that nothing can be said twice and no answer is taken for that to another request. Used by one thread.
 */
public final class RemotePlanListener implements PlanListener {
  private static final Logger LOG = LoggerFactory.getLogger(RemotePlanListener.class);

  private static final SecureRandom RANDOM = new SecureRandom();
  private static final int CONNECT_MS = 1_000;
  private static final long ATTEMPT_MS = 2_000;
  private static final long PAUSE_MS = 100;

  private final List<InetSocketAddress> addresses;
  private final Callable<List<AttemptKey>> keys;
  private final ScheduledExecutorService clock;
  private final boolean encrypt;
  private int last;

  /**
   * Listeners, none of them connected to.
   *
   * @param addresses where they are, at least one
   * @param keys gives this attempt's keys, newest first
   * @param clock closes connections that take too long
   * @param encrypt whether to say nothing to a listener that does not encrypt; one that does is always followed
   */
  public RemotePlanListener(List<InetSocketAddress> addresses, Callable<List<AttemptKey>> keys,
      ScheduledExecutorService clock, boolean encrypt) {
    this.addresses = addresses;
    this.keys = keys;
    this.clock = clock;
    this.encrypt = encrypt;
  }

  /** What closes connections: one thread for all, which does not keep a JVM from ending. */
  public static ScheduledExecutorService clock() {
    ScheduledThreadPoolExecutor clock = new ScheduledThreadPoolExecutor(1, work -> {
      Thread thread = new Thread(work, "treadle clock");
      thread.setDaemon(true);
      return thread;
    });
    clock.setRemoveOnCancelPolicy(true);
    return clock;
  }

  @Override
  public Reply plan(byte[] description, long waitMs) throws IOException {
    long endNs = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(waitMs);
    while (true) {
      long leftMs = TimeUnit.NANOSECONDS.toMillis(endNs - System.nanoTime());
      try {
        Reply reply = request(Messages.KIND_PLAN, description, Math.max(leftMs, 1));
        if (reply.answer() != Answer.BUSY || leftMs <= PAUSE_MS) {
          return reply;
        }
      } catch (ConnectException nobody) {
        throw nobody;
      } catch (IOException unreachable) {
        // The ResourceManager may not have reported this attempt to its engine yet, or may be failing over.
        if (leftMs <= PAUSE_MS) {
          throw unreachable;
        }
        LOG.debug("no plan yet", unreachable);
      }
      pause();
    }
  }

  @Override
  public Reply report(Subject subject, byte[] report) throws IOException {
    return request(subject.kind(), report, ATTEMPT_MS);
  }

  /**
   * Tries each address with each key, beginning with the address that answered last. An address that does not answer,
   * because its host is gone or its process hangs, is given no more than its share of the time that is left, so that
   * all are asked.
   *
   * @throws ConnectException if no address has a listener
   */
  private Reply request(int kind, byte[] body, long timeMs) throws IOException {
    if (body.length > Messages.BODY_MAX) {
      throw new IOException("a request of " + body.length + " bytes; " + Messages.BODY_MAX + " are allowed");
    }
    long endNs = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(timeMs);
    IOException problem = new IOException("no AMRM token was found, or no time was left");
    boolean nobody = true;
    for (int i = 0; i < addresses.size(); i++) {
      int at = (last + i) % addresses.size();
      for (AttemptKey key : currentKeys()) {
        long leftMs = TimeUnit.NANOSECONDS.toMillis(endNs - System.nanoTime());
        if (leftMs <= 0) {
          throw problem;
        }
        try {
          Reply reply = exchange(addresses.get(at), key, kind, body, leftMs, leftMs / (addresses.size() - i));
          last = at;
          return reply;
        } catch (SilentException nothing) {
          nobody = false;
          problem = new IOException(text(addresses.get(at)) + ": " + nothing.getMessage(), nothing);
          break; // it would say nothing to another key either
        } catch (IOException refused) {
          nobody &= refused instanceof ConnectException;
          problem = new IOException(text(addresses.get(at)) + ": " + refused.getMessage(), refused);
        }
      }
    }
    if (nobody && problem.getCause() != null) {
      throw new ConnectException(problem.getMessage());
    }
    throw problem;
  }

  private static String text(InetSocketAddress address) {
    return address.getHostString() + ":" + address.getPort();
  }

  private List<AttemptKey> currentKeys() throws IOException {
    try {
      return keys.call();
    } catch (IOException problem) {
      throw problem;
    } catch (Exception problem) {
      throw new IOException(problem);
    }
  }

  /** A listener has not said its challenge in time. */
  private static final class SilentException extends IOException {
    private static final long serialVersionUID = 1L;

    SilentException(IOException cause) {
      super("says nothing: " + cause.getMessage(), cause);
    }
  }

  /**
   * Asks at one address.
   *
   * @param timeMs how long all of it may take
   * @param silenceMs how long its first word may take
   */
  private Reply exchange(InetSocketAddress address, AttemptKey key, int kind, byte[] body, long timeMs, long silenceMs)
      throws IOException {
    try (Socket socket = new Socket()) {
      Future<?> end = clock.schedule(() -> close(socket), Math.min(timeMs, ATTEMPT_MS), TimeUnit.MILLISECONDS);
      try {
        byte[] challenge = challenge(socket, address, (int) Math.max(1, Math.min(silenceMs, CONNECT_MS)));
        OutputStream out = socket.getOutputStream();
        byte[] nonce = new byte[Messages.NONCE_BYTES];
        RANDOM.nextBytes(nonce);
        byte[] request = Messages.request(key, challenge, kind, body, nonce);
        out.write(request);
        out.flush();
        return Messages.answer(new DataInputStream(socket.getInputStream()), key, challenge, request);
      } catch (EOFException gone) {
        throw new IOException("closed the connection: it does not know this attempt, or is too busy", gone);
      } finally {
        end.cancel(false);
      }
    }
  }

  private byte[] challenge(Socket socket, InetSocketAddress address, int silenceMs) throws IOException {
    Future<?> end = clock.schedule(() -> close(socket), silenceMs, TimeUnit.MILLISECONDS);
    byte[] challenge = new byte[Messages.CHALLENGE_BYTES];
    try {
      socket.setTcpNoDelay(true);
      socket.connect(new InetSocketAddress(InetAddress.getByName(address.getHostString()), address.getPort()),
          silenceMs);
      new DataInputStream(socket.getInputStream()).readFully(challenge);
    } catch (EOFException | ConnectException | UnknownHostException known) {
      throw known;
    } catch (IOException nothing) {
      throw new SilentException(nothing);
    } finally {
      end.cancel(false);
    }
    Messages.checkChallenge(challenge);
    if (encrypt && !Messages.sealed(challenge)) {
      throw new IOException("does not encrypt, as the job wants; set listener.encrypt in its treadle.yaml to true");
    }
    return challenge;
  }

  private static void close(Socket socket) {
    try {
      socket.close();
    } catch (IOException problem) {
      LOG.debug("a socket cannot be closed", problem);
    }
  }

  private static void pause() throws IOException {
    try {
      Thread.sleep(PAUSE_MS);
    } catch (InterruptedException ended) {
      Thread.currentThread().interrupt();
      throw new IOException("interrupted", ended);
    }
  }
}
