package io.treadle.shim.mirror;

import io.treadle.shim.journal.FateColumns;
import io.treadle.shim.wire.Section;
import io.treadle.shim.wire.SectionWriter;

/** Writes what became of proposals. */
final class FateSection {
  private FateSection() {
  }

  static void write(Draft draft, FateColumns fates) {
    SectionWriter rows = draft.section(Section.FATES);
    for (int i = 0; i < fates.size(); i++) {
      rows.i64(fates.sequence(i)).i32(fates.position(i)).u8(fates.fate(i)).i64(fates.container(i)).end();
    }
  }
}
