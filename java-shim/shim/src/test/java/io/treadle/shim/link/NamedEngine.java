package io.treadle.shim.link;

import io.treadle.shim.wire.ProposalFrame;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;

/** One of several engines in this JVM, each of which does what a test says of its name. One test at a time. */
public final class NamedEngine implements Engine {
  private static final Map<String, ScriptedEngine.Script> SCRIPTS = new ConcurrentHashMap<>();
  private static final Map<String, List<ScriptedEngine.Frame>> FRAMES = new ConcurrentHashMap<>();
  private static final AtomicInteger OPEN = new AtomicInteger();
  private static volatile String first = "";
  private static volatile String roster = "[]";
  private final String name;

  /** Made by a link; the first engine has no name before it has said one. */
  public NamedEngine(String name) {
    this.name = name.isEmpty() ? first : name;
    OPEN.incrementAndGet();
  }

  /** Begins a test: engines that propose everything, of which the first says the roster. */
  public static void reset(String firstName, String rosterJson) {
    SCRIPTS.clear();
    FRAMES.clear();
    OPEN.set(0);
    first = firstName;
    roster = rosterJson;
  }

  /** Another roster, said with the next answer. */
  public static void roster(String rosterJson) {
    roster = rosterJson;
  }

  /** From now on. */
  public static void script(String engine, ScriptedEngine.Script script) {
    SCRIPTS.put(engine, script);
  }

  /** The headers of an engine's frames. */
  public static List<ScriptedEngine.Frame> frames(String engine) {
    return FRAMES.computeIfAbsent(engine, key -> new CopyOnWriteArrayList<>());
  }

  /** How many engines are open. */
  public static int open() {
    return OPEN.get();
  }

  /** The answer of an engine that proposes everything with small indices, with its status. */
  public static byte[] proposeAll(String engine, ScriptedEngine.Frame frame) {
    return withStatus(engine, ScriptedEngine.proposeAll(frame));
  }

  /** An answer that proposes nothing and says a status. */
  public static byte[] saying(ScriptedEngine.Frame frame, String status) {
    return ScriptedEngine.answer(frame.epoch(), frame.sequence(), 0, status);
  }

  /** An answer with the status of an engine: its policy is its name. */
  public static byte[] withStatus(String engine, byte[] answer) {
    String engines = engine.equals(first) ? ",\"engines\":" + roster : "";
    byte[] status = ("{\"policy\":\"" + engine + "\"" + engines + "}").getBytes(StandardCharsets.UTF_8);
    ByteBuffer bytes =
        ByteBuffer.allocate(answer.length + status.length).order(ByteOrder.LITTLE_ENDIAN);
    bytes.put(answer).put(status).putInt(36, status.length);
    return bytes.array();
  }

  /** The answer of an engine that still decides. */
  public static byte[] busy(ScriptedEngine.Frame frame) {
    return ScriptedEngine.answer(frame.epoch(), frame.sequence(), 2, "");
  }

  /** An answer with rows of {application, request key, node, transaction}. */
  public static byte[] inTransactions(ScriptedEngine.Frame frame, int[]... rows) {
    return ProposalFrame.encode(4, frame.epoch(), frame.sequence(), 1, "", rows);
  }

  @Override
  public byte[] decide(byte[] frame) throws IOException {
    ScriptedEngine.Frame header = new ScriptedEngine.Frame(frame);
    List<ScriptedEngine.Frame> seen = frames(name);
    if (seen.size() < 10_000) {
      seen.add(header);
    }
    ScriptedEngine.Script script = SCRIPTS.get(name);
    return script == null ? proposeAll(name, header) : script.answer(header);
  }

  @Override
  public void close() {
    OPEN.decrementAndGet();
  }
}
