// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;

/** Reads what a sidecar wrote, in memory and time that its length bounds. Keeps nothing of it. */
public final class Json {
  private static final int DEPTH = 8;
  private static final int TOKENS = 20_000;
  private static final int DIGITS = 30;
  /** Jackson remembers 12,000 names of fields otherwise, however long. */
  private static final ObjectMapper JSON =
      new ObjectMapper(JsonFactory.builder().disable(JsonFactory.Feature.CANONICALIZE_FIELD_NAMES).build());

  private Json() { }

  /**
   * Reads an object. Its tree takes much more memory than the text, so the text is checked first.
   *
   * @param what the subject of the error, which quotes nothing of the text
   * @throws IOException if it is not a JSON object, is nested too deeply, or has too many elements or digits
   */
  public static JsonNode object(String text, String what) throws IOException {
    JsonNode root = null;
    try (JsonParser parser = JSON.getFactory().createParser(text)) {
      int depth = 0;
      int tokens = 0;
      for (JsonToken token = parser.nextToken(); token != null; token = parser.nextToken()) {
        if (token.isStructStart()) {
          depth++;
        } else if (token.isStructEnd()) {
          depth--;
        }
        tokens++;
        if (depth > DEPTH || tokens > TOKENS || token.isNumeric() && parser.getTextLength() > DIGITS) {
          throw new IOException(what + " is nested too deeply, or has too many elements or digits");
        }
      }
      root = JSON.readTree(text);
    } catch (JsonProcessingException e) {
      // below
    }
    if (root == null || !root.isObject()) {
      throw new IOException(what + " is no JSON object");
    }
    return root;
  }
}
