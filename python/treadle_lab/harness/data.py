"""The data sets that lie in a checkout's folder `data`; a wheel does not carry them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from treadle.errors import UserError
from treadle_lab.minicluster.settings import checkout


@dataclass(frozen=True, slots=True)
class DataSet:
    """A data set, or one file of it.

    Attributes:
        place: its path below `data`.
        title: its description and licence.
    """

    place: str
    title: str


GOOGLE: Final = DataSet("google-2011-tasks-25h", "Google's cluster trace of 2011, extract, CC-BY 4.0")
FACEBOOK: Final = DataSet(
    "swim-facebook/FB-2009_samples_24_times_1hr_0.tsv.xz", "SWIM's sample of Facebook's cluster of 2009, BSD 3-clause"
)
FACEBOOK_2010: Final = DataSet(
    "swim-facebook/FB-2010_samples_24_times_1hr_0.tsv.xz", "SWIM's sample of Facebook's cluster of 2010, BSD 3-clause"
)
TPCH: Final = DataSet("tpch-spark-cloudlab", "TPC-H's DAGs measured on Spark, MIT")
OMEGA: Final = DataSet("omega-simulator/runs.csv", "runs of Omega's lightweight simulator, made for this project")
EAGLE: Final = DataSet("eagle-simulator/summary.csv", "runs of the Hawk and Eagle simulator, made for this project")


def find_data(data: DataSet) -> Path | None:
    """Return the path of a data set in this checkout; None if it is missing or this is not a checkout."""
    root = checkout()
    place = None if root is None else root / "data" / data.place
    return place if place is not None and place.exists() else None


def given_or_default(given: Path | None, data: DataSet, say: Callable[[str], None]) -> Path:
    """Return the path that an option gives; by default the checkout's data, which ``say`` names to the user.

    Raises:
        UserError: no path is given, and this is not a checkout; says where to get the data.
    """
    if given is not None:
        return given
    place = find_data(data)
    if place is None:
        raise UserError(
            f"this installation has no folder data/{data.place.partition('/')[0]}: {data.title}; "
            "run the command from a checkout of Treadle's repository, which has it"
        )
    say(f"data: {place} ({data.title})")
    return place
