package io.treadle.shim.engines;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

/** Who serves for whom as engines die and come back, by a clock of the test's. */
class OwnersTest {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final String THREE = "[{\"name\": \"a\", \"entry\": \"a\", \"fallback\": \"c\"},"
      + "{\"name\": \"b\", \"entry\": \"b\"}, {\"name\": \"c\", \"entry\": \"c\"}]";

  private final AtomicInteger changes = new AtomicInteger();
  private final List<Fake> engines = Arrays.asList(new Fake("a"), new Fake("b"), new Fake("c"));
  private long nanos = -5;
  private final Owners owners = new Owners(null, () -> nanos, changes::incrementAndGet, id -> { });

  private static final class Fake implements Living {
    private final String name;
    private boolean held;
    private boolean observed;

    Fake(String name) {
      this.name = name;
    }

    @Override
    public String name() {
      return name;
    }

    @Override
    public boolean held() {
      return held;
    }

    @Override
    public boolean schedules() {
      return held && !observed;
    }
  }

  private void begin() throws IOException {
    owners.roster(Roster.parse(JSON.readTree(THREE)), Collections.unmodifiableList(engines));
  }

  private void live(boolean a, boolean b, boolean c) {
    engines.get(0).held = a;
    engines.get(1).held = b;
    engines.get(2).held = c;
  }

  private String serving() throws IOException {
    StringBuilder text = new StringBuilder();
    for (JsonNode engine : JSON.readTree(owners.json()).path("engines")) {
      text.append(engine.path("served_by").asText());
    }
    return text.toString();
  }

  private void pass(long ms) {
    nanos += TimeUnit.MILLISECONDS.toNanos(ms);
  }

  @Test
  void oneEngineServesEverything() {
    owners.roster(Roster.NONE, Collections.singletonList(engines.get(0)));
    assertFalse(owners.allSchedule());
    engines.get(0).held = true;
    assertTrue(owners.allSchedule());
    assertFalse(owners.several());
    assertFalse(owners.othersLive("a"));
    int generation = owners.generation();
    engines.get(0).held = false;
    assertFalse(owners.allSchedule());
    assertEquals(generation, owners.generation());
  }

  @Test
  void eachTakesItsOwnAsItComesUpFirst() throws IOException {
    begin();
    assertFalse(owners.allSchedule());
    live(true, false, false);
    assertEquals("aaa", serving());
    assertTrue(owners.allSchedule());
    live(true, false, true);
    assertEquals("aac", serving());
    live(true, true, true);
    assertEquals("abc", serving());
    assertTrue(owners.allSchedule());
  }

  @Test
  void theFallbackServesForTheDeadAndGivesBackAfterTenSteadySeconds() throws IOException {
    begin();
    live(true, true, true);
    assertEquals("abc", serving());
    int generation = owners.generation();
    live(false, true, true);
    assertTrue(owners.allSchedule());
    assertEquals("cbc", serving());
    assertTrue(owners.generation() > generation);
    live(true, true, true);
    assertEquals("cbc", serving());
    pass(9_999);
    assertEquals("cbc", serving());
    live(false, true, true);
    assertEquals("cbc", serving());
    live(true, true, true);
    assertEquals("cbc", serving());
    pass(9_999);
    assertEquals("cbc", serving());
    int before = changes.get();
    pass(1);
    assertEquals("abc", serving());
    assertEquals(before + 1, changes.get());
  }

  @Test
  void withoutAFallbackItIsTheFirstThatIsAlive() throws IOException {
    begin();
    live(true, true, true);
    assertEquals("abc", serving());
    live(true, false, true);
    assertEquals("aac", serving());
    live(false, false, true);
    assertEquals("ccc", serving());
  }

  @Test
  void whenAllAreDeadStockSchedulesAndTheFirstToComeBackServesAtOnce() throws IOException {
    begin();
    live(true, true, true);
    assertTrue(owners.allSchedule());
    live(false, false, false);
    assertFalse(owners.allSchedule());
    live(false, true, false);
    assertEquals("bbb", serving());
    assertTrue(owners.allSchedule());
    pass(5_000);
    live(true, true, false);
    assertEquals("bbb", serving());
    pass(9_999);
    assertEquals("bbb", serving());
    pass(1);
    assertEquals("aba", serving());
  }

  @Test
  void whoIsOnlyObservedLeavesTheGateOpen() throws IOException {
    begin();
    live(true, true, true);
    engines.get(1).observed = true;
    assertFalse(owners.allSchedule());
    engines.get(1).observed = false;
    assertTrue(owners.allSchedule());
    assertTrue(owners.othersLive("a"));
    live(true, false, false);
    assertFalse(owners.othersLive("a"));
  }
}
