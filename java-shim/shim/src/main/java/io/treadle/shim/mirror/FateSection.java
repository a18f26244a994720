package io.treadle.shim.mirror;

import io.treadle.shim.wire.Section;
import io.treadle.shim.wire.SectionWriter;

/** Writes what became of proposals: a row for adjacent proposals of one fate. */
final class FateSection {
  private FateSection() {
  }

  static void write(Draft draft, FateColumns fates) {
    SectionWriter rows = draft.section(Section.FATES);
    int first = 0;
    for (int i = 1; i <= fates.size(); i++) {
      if (i == fates.size() || !goesOn(fates, i)) {
        rows.i64(fates.sequence(first)).i32(fates.position(first)).i32(i - first).u8(fates.fate(first)).end();
        first = i;
      }
    }
  }

  private static boolean goesOn(FateColumns fates, int i) {
    return fates.sequence(i) == fates.sequence(i - 1) && fates.fate(i) == fates.fate(i - 1)
        && fates.position(i) == fates.position(i - 1) + 1;
  }
}
