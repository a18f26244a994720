"""The store in a database by URL: an SQLite one always, and the one that TREADLE_TEST_DATABASE names, where it does."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest
from tests.unit.history.conftest import NOW_MS, make_run

from treadle.history.documents import profile_json
from treadle.history.store import ProfileStore, Sample, Selection, open_store

URLS = ["sqlite:///{folder}/by-url.db", *filter(None, [os.environ.get("TREADLE_TEST_DATABASE")])]
USER = "treadle-test"
NO_SAMPLE = Sample(*[0] * len(Sample._fields))


@pytest.fixture(params=URLS, ids=lambda url: url.partition(":")[0])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], ProfileStore]:
    url = str(request.param).replace("{folder}", str(tmp_path))
    with open_store(url) as store:
        store.forget(Selection(user=USER))
    return partial(open_store, url)


def test_what_was_put_is_there_and_goes_again(opened: Callable[[], ProfileStore]) -> None:
    run = make_run(user=USER, name="日🧵\0" * 3000)
    with opened() as store:
        assert store.put(run, NOW_MS)
        assert not store.put(run, NOW_MS)
    with opened() as store:
        (profile,) = store.profiles(Selection(user=USER))
        assert store.forget(Selection(user=USER)) == 1
        assert store.merge(profile, NOW_MS)
        (copied,) = store.profiles(Selection(user=USER))
        assert profile_json(copied) == profile_json(profile)
        assert store.forget(Selection(user=USER)) == 1
        assert store.get(profile.key) is None


def all_at_once(stores: Sequence[ProfileStore], use: Callable[[ProfileStore, int], None]) -> list[BaseException]:
    """Use each store in a thread of its own, with numbers of its own from the given one on; return what failed."""
    failures: list[BaseException] = []

    def run(store: ProfileStore, first: int) -> None:
        try:
            use(store, first)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(store, 100 * at)) for at, store in enumerate(stores)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failures


def test_writers_that_are_in_each_other_s_way_all_get_through(opened: Callable[[], ProfileStore]) -> None:
    stores = [opened() for _ in range(4)]

    def use(store: ProfileStore, first: int) -> None:
        for number in range(first, first + 12):
            store.put(make_run(number, user=USER, name=f"job {'abc'[number % 3]}"), NOW_MS)
            store.keep_samples({f"application_0_{at}": NO_SAMPLE for at in range(5)}, NOW_MS)
            store.prune(NOW_MS)
            if number % 3 == 2:
                store.forget(Selection(user=USER, name=f"job {'abc'[number % 2]}"))

    failures = all_at_once(stores, use)
    stores[0].keep_samples(dict.fromkeys(f"application_0_{at}" for at in range(5)), NOW_MS)
    stores[0].forget(Selection(user=USER))
    for store in stores:
        store.close()
    assert failures == []


def test_runs_that_several_writers_add_at_once_are_all_there(opened: Callable[[], ProfileStore]) -> None:
    stores = [opened() for _ in range(3)]

    def put_all(store: ProfileStore, first: int) -> None:
        for number in range(first, first + 6):
            store.put(make_run(number, user=USER), NOW_MS)

    failures = all_at_once(stores, put_all)
    (profile,) = stores[0].profiles(Selection(user=USER))
    for store in stores:
        store.close()
    assert failures == []
    assert (profile.runs, profile.stages[0].durations.count) == (18, 54)
