"""Which names are those of one recurring job."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.history.run import NAME_CHARACTERS_MAX, normalised_name, recurrence_key


@pytest.mark.parametrize(
    ("name", "normalised"),
    [
        ("LogMiner 2014/05/06 12:30:22", "logminer"),
        ("nightly_2026-11-21_load #17", "nightly load"),
        ("nightly_20261121_load(18)", "nightly load"),
        ("nightly 2026-11-21T03:15:00.123+01:00 load", "nightly load"),
        ("HIVE-550e8400-e29b-41d4-a716-446655440000", "hive"),
        ("distcp: application_1795276064014_0001", "distcp"),
        (
            "oozie:launcher:T=pig:W=daily:A=load:ID=0000017-job_1795276064014_0009",
            "oozie launcher t=pig w=daily a=load id=0000017",
        ),
        ("export 1795276064 and 1795276064014", "export and"),
        ("model deadbeef42 (3)", "model"),
        ("QuasiMonteCarlo", "quasimontecarlo"),
        ("tpcds-q64", "tpcds q"),
        ("wordcount 4", "wordcount"),
        ("日報 2026-11-21", "日報"),
        ("отчёт №7", "отчёт №"),
        ("", ""),
    ],
)
def test_what_changes_from_run_to_run_is_taken_out(name: str, normalised: str) -> None:
    assert normalised_name(name) == normalised


def test_a_tag_names_the_profile() -> None:
    key = recurrence_key("ann", "root.a.b", "spark", "whatever 7", ["zzz", "treadle:etl.daily", "Treadle:ETL.Aaa"])
    assert key == ("ann", "b", "SPARK", "treadle:etl.aaa")
    assert recurrence_key("ann", "b", "SPARK", "whatever 7", ["treadle:not a key"]).name == "whatever"


def test_names_that_the_shim_cuts_have_the_key_of_the_whole() -> None:
    for character in "x", "日", "🧵":
        whole = character * 10_000
        units = whole.encode("utf-16-le")[: 2 * NAME_CHARACTERS_MAX].decode("utf-16-le")
        assert normalised_name(whole) == normalised_name(units)


@given(st.text(max_size=300), st.dates(), st.integers(0, 10**6))
def test_a_date_and_a_run_number_never_matter(name: str, day: object, number: int) -> None:
    assert normalised_name(f"{name}_{day} #{number}") == normalised_name(f"{name}_2020-01-01 #1")


@given(st.text())
def test_any_text_gives_a_text_that_can_be_stored(name: str) -> None:
    normalised = normalised_name(name)
    assert "\0" not in normalised
    assert normalised.encode("utf-8").decode("utf-8") == normalised.strip()
