// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.constraints;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/**
 * What an application requires of a node: {@code name op value[|value]}, several joined by {@code ;}. Case is ignored.
 * {@code treadle.constraints} is the same in Python; {@code tests/golden/expressions.json} holds both to one meaning.
 */
final class Expression {
  /** A longer text is refused. */
  static final int MAX_CHARS = 1000;
  /** Those of two characters first: the longest that stands there is meant. */
  private static final Pattern OPERATOR = Pattern.compile("!=|>=|<=|=|>|<");
  private static final Pattern NAME =
      Pattern.compile("[A-Za-z0-9_][A-Za-z0-9_.-]*+(/[A-Za-z0-9_][A-Za-z0-9_.-]*+)?");
  private static final String NOT_IN_A_VALUE = "!<>=|;&";

  private final List<Predicate> predicates;
  private final String text;

  private Expression(TreeMap<String, Predicate> inOrder) {
    predicates = new ArrayList<>(inOrder.values());
    text = predicates.stream().map(Predicate::text).collect(Collectors.joining(";"));
  }

  /**
   * Reads a requirement.
   *
   * @throws ExpressionException if it is not of the form, naming the character and how to put it right
   */
  static Expression parse(String text) throws ExpressionException {
    if (text.length() > MAX_CHARS) {
      throw new ExpressionException(text, MAX_CHARS + 1, "longer than " + MAX_CHARS + " characters; shorten it");
    }
    for (int i = 0; i < text.length(); i++) {
      if (text.charAt(i) < ' ' || text.charAt(i) > '~') {
        throw new ExpressionException(text, i + 1, "a character that is not printable ASCII; leave it out");
      }
    }
    TreeMap<String, Predicate> found = new TreeMap<>();
    int start = 0;
    while (start <= text.length()) {
      int end = text.indexOf(';', start);
      end = end < 0 ? text.length() : end;
      Predicate predicate = predicate(text, start, end);
      found.put(predicate.key(), predicate);
      start = end + 1;
    }
    return new Expression(found);
  }

  private static Predicate predicate(String text, int start, int end) throws ExpressionException {
    int begin = blanks(text, start, end);
    Matcher name = NAME.matcher(text).region(begin, end);
    if (!name.lookingAt()) {
      throw new ExpressionException(text, begin + 1, "expected a name, as in zone=a; write name op value");
    }
    int at = blanks(text, name.end(), end);
    Matcher operator = OPERATOR.matcher(text).region(at, end);
    if (!operator.lookingAt()) {
      throw new ExpressionException(text, at + 1, "expected one of = != >= > <= < after the name");
    }
    String op = operator.group();
    List<String> values = values(text, operator.end(), end);
    if (Predicate.compares(op) && (values.size() > 1 || !Versions.isDotted(values.get(0)))) {
      throw new ExpressionException(text, at + 1,
          op + " needs one number, as in kernel>=4.18; write = or != for names and lists");
    }
    return new Predicate(name.group().toLowerCase(Locale.ROOT), op, values);
  }

  private static List<String> values(String text, int start, int end) throws ExpressionException {
    List<String> found = new ArrayList<>();
    int at = start;
    while (at <= end) {
      int bar = text.indexOf('|', at);
      int valueEnd = bar < 0 || bar > end ? end : bar;
      found.add(value(text, at, valueEnd));
      at = valueEnd + 1;
    }
    return found;
  }

  private static String value(String text, int start, int end) throws ExpressionException {
    int begin = blanks(text, start, end);
    int last = begin;
    while (last < end && NOT_IN_A_VALUE.indexOf(text.charAt(last)) < 0) {
      last++;
    }
    if (last == begin) {
      throw new ExpressionException(text, begin + 1, "expected a value; write name op value");
    }
    if (last < end) {
      throw new ExpressionException(text, last + 1,
          "unexpected '" + text.charAt(last) + "' in a value; join conditions by ;");
    }
    while (text.charAt(last - 1) == ' ') {
      last--;
    }
    return text.substring(begin, last).toLowerCase(Locale.ROOT);
  }

  private static int blanks(String text, int from, int end) {
    int at = from;
    while (at < end && text.charAt(at) == ' ') {
      at++;
    }
    return at;
  }

  /** Whether a node meets all of it. */
  boolean admits(NodeFacts node) {
    for (Predicate predicate : predicates) {
      if (!predicate.holds(node)) {
        return false;
      }
    }
    return true;
  }

  /** The canonical form: equal for requirements that say the same. */
  String text() {
    return text;
  }

  @Override
  public String toString() {
    return text;
  }
}
