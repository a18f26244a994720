// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.commit;

import java.util.Set;

/** Looks, a little at a time, for asks that could be placed now. Used by one thread. */
public interface AskSearch {
  /** Begins a search, and forgets the one before. */
  void begin();

  /**
   * Goes on for a bounded while.
   *
   * @return whether the search is over
   */
  boolean goOn();

  /** Whether the search that is over has looked at everything there was. */
  boolean complete();

  /** The asks found since {@link #begin}: not all of them, if there are many. */
  Set<Ask> found();
}
