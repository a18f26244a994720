package io.treadle.shim.engines;

import com.fasterxml.jackson.databind.JsonNode;
import io.treadle.shim.Printable;
import java.util.Collections;
import java.util.HashSet;
import java.util.Locale;
import java.util.Set;
import java.util.regex.Pattern;

/** One engine of a {@link Roster}, as the first engine says it: docs/wire-format.md, "The roster". Immutable. */
public final class RosterEntry {
  private static final Pattern NAME = Pattern.compile("[a-z][a-z0-9-]{0,31}");
  private static final int TEXTS_MAX = 256;
  private static final int TEXT_CHARACTERS = 1000;

  /** What the engine is called. */
  public final String name;
  /** The entry of treadle.yaml that it comes from; its copies have the same. */
  public final String entry;
  /** Which of the {@link #copies} it is, from 0. */
  public final int copy;
  public final int copies;
  /** Whether a node on which others have committed since the base frame is a conflict. */
  public final boolean coarse;
  /** How long it may decide, milliseconds. */
  public final long decisionMaxMs;
  /** Of several that wait to commit the one with the highest is first. */
  public final int precedence;
  /** The largest part of a partition that its applications may use. */
  public final double claim;
  /** The entry that serves its applications while it is dead, empty for the first engine that is alive. */
  public final String fallback;
  /** The bounds of tasks at the time when an application is first seen asking; 0 for none. */
  final int tasksMin;
  final int tasksMax;
  private final Set<String> queues;
  private final Set<String> types;
  private final Set<String> tags;
  private final Set<String> users;

  RosterEntry(JsonNode said) {
    name = text(said, "name");
    entry = text(said, "entry");
    if (!NAME.matcher(name).matches()) {
      throw new IllegalArgumentException("an engine's name is '" + Printable.cut(name, TEXT_CHARACTERS) + "'");
    }
    copies = number(said, "copies", 1, Roster.ENGINES_MAX, 1);
    copy = number(said, "copy", 0, copies - 1, 0);
    coarse = said.path("coarse").asBoolean(false);
    decisionMaxMs = number(said, "decision_max_ms", 1, 3_600_000, 30_000);
    precedence = number(said, "precedence", -1000, 1000, 0);
    claim = part(said, "claim");
    fallback = text(said, "fallback");
    JsonNode select = said.path("select");
    tasksMin = number(select, "tasks_min", 0, Integer.MAX_VALUE, 0);
    tasksMax = number(select, "tasks_max", 0, Integer.MAX_VALUE, 0);
    queues = texts(select, "queues");
    types = texts(select, "types");
    tags = texts(select, "tags");
    users = texts(select, "users");
  }

  private static String text(JsonNode said, String field) {
    return Printable.cut(said.path(field).asText(""), TEXT_CHARACTERS);
  }

  private static int number(JsonNode said, String field, int least, int most, int absent) {
    JsonNode value = said.path(field);
    if (value.isMissingNode() || value.isNull()) {
      return absent;
    }
    if (!value.canConvertToInt() || value.asInt() < least || value.asInt() > most) {
      throw new IllegalArgumentException("'" + field + "' of an engine is " + Printable.cut(value.toString(), TEXT_CHARACTERS)
          + ", not a number from " + least + " to " + most);
    }
    return value.asInt();
  }

  private static double part(JsonNode said, String field) {
    JsonNode value = said.path(field);
    double part = value.isMissingNode() || value.isNull() ? 1 : value.isNumber() ? value.asDouble() : Double.NaN;
    if (!(part > 0 && part <= 1)) {
      throw new IllegalArgumentException("'" + field + "' of an engine is " + Printable.cut(value.toString(), TEXT_CHARACTERS)
          + ", not a number above 0 and at most 1");
    }
    return part;
  }

  private static Set<String> texts(JsonNode said, String field) {
    Set<String> found = new HashSet<>();
    for (JsonNode text : said.path(field)) {
      if (found.size() == TEXTS_MAX) {
        throw new IllegalArgumentException("'" + field + "' of an engine has more than " + TEXTS_MAX + " texts");
      }
      found.add(Printable.cut(text.asText(), TEXT_CHARACTERS));
    }
    return Collections.unmodifiableSet(found);
  }

  /** Whether an application is this entry's, any copy's. */
  boolean matches(Facts facts) {
    return (queues.isEmpty() || isBelow(facts.queue))
        && (types.isEmpty() || types.contains(facts.type.toUpperCase(Locale.ROOT)))
        && (users.isEmpty() || users.contains(facts.user))
        && (tags.isEmpty() || !Collections.disjoint(tags, facts.tags))
        && facts.tasks >= tasksMin && (tasksMax == 0 || facts.tasks <= tasksMax);
  }

  private boolean isBelow(String queue) {
    for (String path = queue; ; path = path.substring(0, path.lastIndexOf('.'))) {
      if (queues.contains(path)) {
        return true;
      }
      if (path.lastIndexOf('.') < 0) {
        return false;
      }
    }
  }
}
