"""Run slices of the campaign: `python -m tests.campaign [PART ...] --minutes N`."""

from __future__ import annotations

import argparse
import importlib
import sys
import traceback
from collections.abc import Sequence

from tests.campaign.kills import FAULTS
from tests.campaign.ledger import Ledger, write_figures
from tests.campaign.page import write_page
from tests.campaign.slices import Slice

PARTS = ("kills", "engines", "hostile", "stock", "failover", "soak", "fuzz", "mutants")
FRAMEWORKS = ("MapReduce", "Tez", "Spark")


def arguments(texts: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all if none is named")
    parser.add_argument("--minutes", type=float, default=10.0, help="length of each part's slice, 60 at most (10)")
    parser.add_argument("--seed", type=int, help="instead of the next one: to see a finding again")
    parser.add_argument("--frameworks", nargs="+", choices=FRAMEWORKS, default=list(FRAMEWORKS), help="jobs of kills")
    parser.add_argument("--faults", nargs="+", choices=FAULTS, default=list(FAULTS), help="of kills")
    parser.add_argument("--only", help="of stock, fuzz and mutants: those whose name has this text")
    parser.add_argument("--applications", type=int, default=2000, help="of a slice of soak (2000)")
    chosen = parser.parse_args(texts)
    unknown = [part for part in chosen.parts if part not in PARTS]
    if unknown:
        parser.error(f"there is no part {unknown[0]!r}; there are {', '.join(PARTS)}")
    if not 0 < chosen.minutes <= 60:
        parser.error(f"--minutes is {chosen.minutes:g}: it must lie between 0 and 60")
    return chosen


def main(texts: Sequence[str] | None = None) -> int:
    """Run the parts one after another; returns 1 if a defect was found or a part broke off, else 0."""
    chosen = arguments(texts)
    done: list[Slice] = []
    for part in chosen.parts or PARTS:
        ledger = Ledger()
        options = {
            "frameworks": chosen.frameworks,
            "faults": chosen.faults,
            "only": chosen.only,
            "applications": chosen.applications,
        }
        seed = chosen.seed if chosen.seed is not None else ledger.next_seed(part)
        work = Slice(part, seed, chosen.minutes, dict(ledger.entry(part)["state"]), options)
        print(f"{part}: seed {seed}, {chosen.minutes:g} minutes", flush=True)
        try:
            importlib.import_module(f"tests.campaign.{part}").run(work)
        except KeyboardInterrupt:
            work.say("broken off; what was counted is kept")
            raise
        except Exception:
            work.find(f"the part broke off: {traceback.format_exc(limit=-4)}")
        finally:
            # another slice may have been added meanwhile
            Ledger().add(work)
            done.append(work)
            write_figures(done)
            write_page()
        print(f"{part}: {dict(sorted(work.counts.items()))}, {len(work.findings)} findings", flush=True)
    return 1 if any(work.findings for work in done) else 0


if __name__ == "__main__":
    sys.exit(main())
