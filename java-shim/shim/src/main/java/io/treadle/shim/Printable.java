package io.treadle.shim;

/** Text of others, made fit for one line of a log or a cell of a terminal. */
public final class Printable {
  private Printable() {
  }

  /** Returns a text with a space for each character that ends a line, commands a terminal or turns the direction. */
  public static String line(String text) {
    StringBuilder line = new StringBuilder(text.length());
    text.codePoints().forEach(code -> line.appendCodePoint(isPrintable(code) ? code : ' '));
    return line.toString();
  }

  private static boolean isPrintable(int code) {
    switch (Character.getType(code)) {
      case Character.CONTROL:
      case Character.FORMAT:
      case Character.LINE_SEPARATOR:
      case Character.PARAGRAPH_SEPARATOR:
      case Character.SURROGATE:
      case Character.UNASSIGNED:
      case Character.PRIVATE_USE:
        return false;
      default:
        return true;
    }
  }
}
