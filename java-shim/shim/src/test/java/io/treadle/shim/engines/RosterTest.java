package io.treadle.shim.engines;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.util.Arrays;
import java.util.HashSet;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class RosterTest {
  private static Roster parse(String json) throws IOException {
    return Roster.parse(new ObjectMapper().readTree(json));
  }

  private static Facts facts(int id, String queue, String type, String user, int tasks, String... tags) {
    return new Facts(id, queue, type, user, new HashSet<>(Arrays.asList(tags)), tasks);
  }

  @Test
  void withoutEnginesThereIsOne() throws IOException {
    assertSame(Roster.NONE, Roster.parse(null));
    assertSame(Roster.NONE, parse("[]"));
  }

  @Test
  void theFirstThatMatchesServes() throws IOException {
    Roster roster = parse("["
        + "{\"name\": \"prod\", \"entry\": \"prod\", \"select\": {\"queues\": [\"root.prod\"], \"types\": [\"SPARK\"]}},"
        + "{\"name\": \"tagged\", \"entry\": \"tagged\", \"select\": {\"tags\": [\"x\", \"y\"], \"users\": [\"ann\"]}},"
        + "{\"name\": \"small\", \"entry\": \"small\", \"select\": {\"tasks_min\": 1, \"tasks_max\": 9}},"
        + "{\"name\": \"rest\", \"entry\": \"rest\"}]");
    assertEquals(0, roster.home(facts(1, "root.prod", "spark", "u", 99)));
    assertEquals(0, roster.home(facts(1, "root.prod.a.b", "SPARK", "u", 99)));
    assertEquals(3, roster.home(facts(1, "root.production", "SPARK", "u", 99)));
    assertEquals(3, roster.home(facts(1, "root.prod", "TEZ", "u", 99)));
    assertEquals(1, roster.home(facts(1, "root.b", "TEZ", "ann", 99, "z", "y")));
    assertEquals(3, roster.home(facts(1, "root.b", "TEZ", "bob", 99, "z", "y")));
    assertEquals(2, roster.home(facts(1, "root.b", "TEZ", "bob", 9)));
    assertEquals(3, roster.home(facts(1, "root.b", "TEZ", "bob", 10)));
    assertEquals(3, roster.home(facts(1, "root.b", "TEZ", "bob", 0)));
    assertTrue(roster.looksAtTasks());
  }

  @Test
  void copiesShareByTheApplicationsNumber() throws IOException {
    Roster roster = parse("["
        + "{\"name\": \"a\", \"entry\": \"a\", \"select\": {\"users\": [\"ann\"]}, \"fallback\": \"b\"},"
        + "{\"name\": \"b-1\", \"entry\": \"b\", \"copy\": 0, \"copies\": 2, \"fallback\": \"b\"},"
        + "{\"name\": \"b-2\", \"entry\": \"b\", \"copy\": 1, \"copies\": 2, \"fallback\": \"b\"}]");
    assertEquals(1, roster.home(facts(4, "root.b", "TEZ", "bob", 9)));
    assertEquals(2, roster.home(facts(5, "root.b", "TEZ", "bob", 9)));
    assertEquals(Arrays.asList(0, 1, 2), roster.order(0));
    assertEquals(Arrays.asList(1, 2, 0), roster.order(1));
    assertEquals(Arrays.asList(2, 1, 0), roster.order(2));
  }

  @ParameterizedTest
  @CsvSource(delimiter = '|', value = {
      "7 | is no list",
      "[{\"name\": \"A\"}] | name is 'A'",
      "[{\"name\": \"a\"}, {\"name\": \"a\"}] | two engines are called a",
      "[{\"name\": \"a\", \"copies\": 9}] | 'copies' of an engine is 9",
      "[{\"name\": \"a\", \"copies\": 2, \"copy\": 2}] | 'copy' of an engine is 2",
      "[{\"name\": \"a\", \"decision_max_ms\": \"x\"}] | 'decision_max_ms' of an engine is",
      "[1, 2, 3, 4, 5, 6, 7, 8, 9] | 9 engines; at most 8",
      "[[]] | name is ''"})
  void whatCannotBeUsedIsSaid(String json, String why) {
    String said = assertThrows(IllegalArgumentException.class, () -> parse(json)).getMessage();
    assertTrue(said.contains(why), said);
    assertTrue(said.length() < 2000);
  }

  @Test
  void rostersOfOneTextAreTheSame() throws IOException {
    assertTrue(parse("[{\"name\": \"a\"}]").isSame(parse("[{\"name\":\"a\"}]")));
    assertFalse(parse("[{\"name\": \"a\"}]").isSame(parse("[{\"name\": \"a\", \"claim\": 0.5}]")));
    assertFalse(Roster.NONE.isSame(parse("[{\"name\": \"a\"}]")));
  }

  @Test
  void listsAreBounded() {
    StringBuilder many = new StringBuilder("0");
    for (int i = 1; i < 300; i++) {
      many.append(',').append(i);
    }
    assertThrows(IllegalArgumentException.class,
        () -> parse("[{\"name\": \"a\", \"select\": {\"users\": [" + many + "]}}]"));
  }
}
