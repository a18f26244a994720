// SPDX-License-Identifier: Apache-2.0
package io.treadle.plans;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.net.ConnectException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hadoop.security.token.Token;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.security.AMRMTokenIdentifier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

@Timeout(60)
class RemotePlanListenerTest {
  private static final ApplicationAttemptId ATTEMPT =
      ApplicationAttemptId.newInstance(ApplicationId.newInstance(1_700_000_000_000L, 7), 2);
  private static final byte[] PASSWORD = new byte[20];
  private static final AttemptKey KEY = AttemptKey.of(ATTEMPT, 5, PASSWORD);

  private final ScheduledExecutorService clock = Executors.newScheduledThreadPool(1);

  /** What a listener does with a connection. */
  private interface Behaviour {
    void serve(DataInputStream in, OutputStream out) throws Exception;
  }

  /** A listener of one behaviour. */
  private static final class Server implements AutoCloseable {
    final ServerSocket socket;

    Server(Behaviour behaviour) throws IOException {
      socket = new ServerSocket(0, 50, InetAddress.getByName("127.0.0.2"));
      Thread thread = new Thread(() -> {
        while (!socket.isClosed()) {
          try (Socket connected = socket.accept()) {
            behaviour.serve(new DataInputStream(connected.getInputStream()), connected.getOutputStream());
          } catch (Exception ended) {
            continue;
          }
        }
      });
      thread.setDaemon(true);
      thread.start();
    }

    InetSocketAddress address() {
      return InetSocketAddress.createUnresolved("127.0.0.2", socket.getLocalPort());
    }

    @Override
    public void close() throws IOException {
      socket.close();
    }
  }

  @AfterEach
  void stop() {
    clock.shutdownNow();
  }

  private PlanListener client(InetSocketAddress... addresses) {
    return new RemotePlanListener(Arrays.asList(addresses), () -> Collections.singletonList(KEY), clock, false);
  }

  private static byte[] challenge() {
    return ByteBuffer.allocate(Messages.CHALLENGE_BYTES).putInt(Messages.CHALLENGE_MAGIC)
        .put((byte) Messages.VERSION).array();
  }

  private static byte[] answer(AttemptKey key, byte[] challenge, byte[] asked, int status, byte[] body, int length)
      throws Exception {
    byte[] header = ByteBuffer.allocate(Messages.ANSWER_BYTES).putInt(Messages.ANSWER_MAGIC)
        .put((byte) Messages.VERSION).put((byte) status).putShort((short) 0).putInt(length)
        .put(MessageDigest.getInstance("SHA-256").digest(body)).array();
    byte[] mac = key.mac(challenge, asked, header);
    return ByteBuffer.allocate(header.length + mac.length + body.length).put(header).put(mac).put(body).array();
  }

  /** The header of a request whose body is one byte. */
  private static byte[] asked(DataInputStream in) throws IOException {
    byte[] header = new byte[Messages.REQUEST_BYTES];
    in.readFully(header);
    in.readFully(new byte[AttemptKey.MAC_BYTES + 1]);
    return header;
  }

  /** Answers as it should, after checking what was said. */
  private static void well(DataInputStream in, OutputStream out) throws Exception {
    byte[] challenge = challenge();
    out.write(challenge);
    byte[] header = new byte[Messages.REQUEST_BYTES];
    byte[] mac = new byte[AttemptKey.MAC_BYTES];
    in.readFully(header);
    in.readFully(mac);
    if (!Arrays.equals(KEY.mac(challenge, header), mac)) {
      return;
    }
    byte[] body = new byte[ByteBuffer.wrap(header).getInt(8)];
    in.readFully(body);
    out.write(answer(KEY, challenge, header, 0, body, body.length));
  }

  @Test
  void anAnswerComesBack() throws Exception {
    try (Server server = new Server(RemotePlanListenerTest::well)) {
      byte[] body = {1, 2, 3};
      PlanListener.Reply reply = client(server.address()).plan(body, 10_000);
      assertEquals(PlanListener.Answer.OK, reply.answer());
      assertArrayEquals(body, reply.body());
    }
  }

  @Test
  void theListenerOfTheOtherResourceManagerIsAskedWhereOneDoesNotAnswer() throws Exception {
    try (Server gone = new Server((in, out) -> { });
        Server server = new Server(RemotePlanListenerTest::well)) {
      PlanListener client = client(gone.address(), server.address());
      assertEquals(PlanListener.Answer.OK, client.report(PlanListener.Subject.DAG, new byte[] {1}).answer());
      gone.socket.close();
      assertEquals(PlanListener.Answer.OK, client.report(PlanListener.Subject.DAG, new byte[] {1}).answer());
    }
  }

  /** As during a failover: the first address is of a ResourceManager that is not the active one. */
  static List<Behaviour> others() {
    return Arrays.asList(
        null,
        (in, out) -> in.read(),
        (in, out) -> { },
        (in, out) -> {
          out.write(challenge());
          in.readFully(new byte[Messages.REQUEST_BYTES + AttemptKey.MAC_BYTES]);
        });
  }

  @ParameterizedTest
  @MethodSource("others")
  void aPlanComesFromTheSecondAddressWhateverTheFirstDoes(Behaviour behaviour) throws Exception {
    AttemptKey renewed = AttemptKey.of(ATTEMPT, 6, PASSWORD);
    try (Server other = new Server(behaviour); Server server = new Server(RemotePlanListenerTest::well)) {
      if (behaviour == null) {
        other.socket.close();
      }
      // renewed first, as after a roll-over that no frame has reported yet
      PlanListener client = new RemotePlanListener(Arrays.asList(other.address(), server.address()),
          () -> Arrays.asList(renewed, KEY), clock, false);
      assertEquals(PlanListener.Answer.OK, client.plan(new byte[] {1}, 4_000).answer());
    }
  }

  @Test
  void anAnswerThatTakesLongerThanItsShareIsWaitedFor() throws Exception {
    try (Server slow = new Server((in, out) -> {
      byte[] challenge = challenge();
      out.write(challenge);
      byte[] asked = asked(in);
      Thread.sleep(700);
      out.write(answer(KEY, challenge, asked, 0, new byte[0], 0));
    }); Server gone = new Server((in, out) -> { })) {
      PlanListener client = client(slow.address(), gone.address(), gone.address(), gone.address());
      assertEquals(PlanListener.Answer.OK, client.plan(new byte[] {1}, 4_000).answer());
    }
  }

  @Test
  void whateverIsNoAnswerIsNotTaken() throws Exception {
    AttemptKey other = AttemptKey.of(ATTEMPT, 5, new byte[] {1});
    byte[] none = new byte[0];
    List<Behaviour> wrong = Arrays.asList(
        (in, out) -> out.write("HTTP/1.1 400 Bad Request, and so on and so forth".getBytes("US-ASCII")),
        (in, out) -> out.write(new byte[] {'T', 'R', 'D', 'C'}),
        (in, out) -> {
          out.write(challenge());
          out.write(answer(other, challenge(), asked(in), 0, none, 0));
        },
        (in, out) -> {
          out.write(challenge());
          out.write(answer(KEY, challenge(), asked(in), 99, none, 0));
        },
        (in, out) -> {
          out.write(challenge());
          out.write(answer(KEY, challenge(), asked(in), 0, none, Integer.MAX_VALUE));
        },
        (in, out) -> {
          out.write(challenge());
          byte[] damaged = answer(KEY, challenge(), asked(in), 0, new byte[] {1}, 1);
          damaged[damaged.length - 1] = 2;
          out.write(damaged);
        });
    for (Behaviour behaviour : wrong) {
      try (Server server = new Server((in, out) -> {
        behaviour.serve(in, out);
        in.skipBytes(1 << 20);
      })) {
        assertThrows(IOException.class, () -> client(server.address())
            .report(PlanListener.Subject.DAG, new byte[] {1}));
      }
    }
  }

  /** Somebody between the two, without a key, says again what the listener said to another request of the attempt. */
  @Test
  void anAnswerToAnotherRequestIsNotTaken() throws Exception {
    ByteArrayOutputStream said = new ByteArrayOutputStream();
    try (Server server = new Server((in, out) -> {
      if (said.size() > 0) {
        out.write(said.toByteArray());
        in.skipBytes(1 << 20);
      } else {
        well(in, new OutputStream() {
          @Override
          public void write(int value) throws IOException {
            said.write(value);
            out.write(value);
          }
        });
      }
    })) {
      PlanListener client = client(server.address());
      assertEquals(PlanListener.Answer.OK, client.report(PlanListener.Subject.DAG, new byte[] {1}).answer());
      assertThrows(IOException.class, () -> client.report(PlanListener.Subject.DAG, new byte[] {2}));
      assertThrows(IOException.class, () -> client.report(PlanListener.Subject.DAG, new byte[] {1}));
    }
  }

  @Test
  void anotherVersionIsNamedBesideOurs() throws Exception {
    byte[] challenge = challenge();
    challenge[4] = 1;
    try (Server server = new Server((in, out) -> {
      out.write(challenge);
      in.read();
    })) {
      IOException thrown = assertThrows(IOException.class,
          () -> client(server.address()).report(PlanListener.Subject.DAG, new byte[] {1}));
      assertTrue(thrown.getMessage().contains("speaks version 1 of the plan protocol, this plug-in version 2"),
          thrown.getMessage());
    }
  }

  @Test
  void whereAJobWantsEncryptionNothingIsSaidToAListenerThatHasNone() throws Exception {
    AtomicInteger heard = new AtomicInteger();
    try (Server server = new Server((in, out) -> {
      out.write(challenge());
      heard.addAndGet(in.read() < 0 ? 0 : 1);
    })) {
      PlanListener client = new RemotePlanListener(Collections.singletonList(server.address()),
          () -> Collections.singletonList(KEY), clock, true);
      IOException thrown = assertThrows(IOException.class,
          () -> client.report(PlanListener.Subject.DAG, new byte[] {1}));
      assertTrue(thrown.getMessage().contains("does not encrypt"), thrown.getMessage());
    }
    assertEquals(0, heard.get());
  }

  @Test
  void settingsThatAreNeitherTrueNorFalseAreRefused() {
    assertTrue(ListenerAddresses.flag("x", " TRUE "));
    assertFalse(ListenerAddresses.flag("x", null));
    assertThrows(IllegalArgumentException.class, () -> ListenerAddresses.flag("x", "yes"));
  }

  @Test
  void aListenerThatSaysNothingIsNotWaitedForForLong() throws Exception {
    try (Server server = new Server((in, out) -> in.read())) {
      assertThrows(IOException.class, () -> client(server.address()).plan(new byte[] {1}, 200));
    }
  }

  @Test
  void whereNobodyListensNobodyIsWaitedFor() throws Exception {
    InetSocketAddress gone;
    try (Server server = new Server((in, out) -> { })) {
      gone = server.address();
    }
    // longer than this test may take
    assertThrows(ConnectException.class, () -> client(gone, gone).plan(new byte[] {1}, 3_600_000));
  }

  @Test
  void aListenerThatNeverEndsIsNotListenedToForLong() throws Exception {
    try (Server server = new Server((in, out) -> {
      while (true) {
        out.write(challenge());
      }
    })) {
      assertThrows(IOException.class, () -> client(server.address()).plan(new byte[] {1}, 200));
    }
  }

  @Test
  void aBodyThatIsTooLongIsNotSent() {
    byte[] body = new byte[Messages.BODY_MAX + 1];
    assertThrows(IOException.class, () -> client(InetSocketAddress.createUnresolved("127.0.0.2", 1))
        .report(PlanListener.Subject.DAG, body));
  }

  /** The shim in the ResourceManager makes the same of the same password. */
  @Test
  void theKeyOfAPassword() throws Exception {
    byte[] password = new byte[20];
    for (int i = 0; i < password.length; i++) {
      password[i] = (byte) i;
    }
    javax.crypto.Mac mac = javax.crypto.Mac.getInstance("HmacSHA256");
    byte[] key = new byte[32];
    String hex = "d1999eeec1fa2fc261a10f046e7c735b1d0d0cb0a14705085030752e8d2d5f8a";
    for (int i = 0; i < key.length; i++) {
      key[i] = (byte) Integer.parseInt(hex.substring(2 * i, 2 * i + 2), 16);
    }
    mac.init(new javax.crypto.spec.SecretKeySpec(key, "HmacSHA256"));
    assertArrayEquals(mac.doFinal(password), AttemptKey.of(ATTEMPT, 5, password).mac(password));
  }

  @Test
  void keysComeFromTheTokensOfTheAttempt() throws Exception {
    UserGroupInformation user = UserGroupInformation.createRemoteUser("ann");
    AMRMTokenIdentifier mine = new AMRMTokenIdentifier(ATTEMPT, 5);
    user.addToken(new Text("mine"), new Token<>(mine.getBytes(), PASSWORD, mine.getKind(), new Text("mine")));
    user.addToken(new Text("else"), new Token<>(new byte[] {1}, PASSWORD, new Text("ELSE"), new Text("else")));
    UserGroupInformation renewed = UserGroupInformation.createRemoteUser("ann");
    AMRMTokenIdentifier next = new AMRMTokenIdentifier(ATTEMPT, 6);
    renewed.addToken(new Text("mine"), new Token<>(next.getBytes(), PASSWORD, next.getKind(), new Text("mine")));
    List<AttemptKey> keys = AttemptKey.of(ATTEMPT::equals, Arrays.asList(renewed, user, user));
    assertEquals(2, keys.size());
    assertEquals(6, keys.get(0).number());
    assertEquals(5, keys.get(1).number());
    assertArrayEquals(KEY.mac(PASSWORD), keys.get(1).mac(PASSWORD));
  }
}
