"""Owners of applications, whatever engines die, return, give up or are replaced."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from treadle.config.settings import STEADY_MS, Entry, RosterEngine, Select, engines_of, problems
from treadle.constraints import gang_of
from treadle.sidecar.roster import NEVER, Asking, Move, Roster, matches


def roster(*entries: tuple[str, Entry]) -> tuple[RosterEngine, ...]:
    named = dict(entries)
    assert list(problems(named)) == []
    return engines_of(named)


THREE = roster(
    ("service", Entry(select=Select(queues=("root.prod",), types=("spark",)), fallback="batch")),
    ("small", Entry(select=Select(tasks_min=1, tasks_max=9))),
    ("batch", Entry(copies=3)),
)
TWO = roster(("large", Entry(select=Select(tasks_min=10), fallback="rest")), ("rest", Entry(copies=2)))

askings = st.builds(
    Asking,
    number=st.integers(0, 20),
    queue=st.sampled_from(["root.prod", "root.prod.etl", "root.production", "root.dev"]),
    type=st.sampled_from(["SPARK", "spark", "TEZ"]),
    user=st.sampled_from(["a", "b"]),
    tasks=st.integers(0, 12),
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("begin"), askings),
        st.tuples(st.just("end"), st.integers(0, 30)),
        st.tuples(st.sampled_from(["dies", "returns"]), st.integers(0, 4)),
        st.tuples(st.just("give up"), st.integers(0, 30)),
        st.tuples(st.just("wait"), st.integers(0, STEADY_MS + 1)),
        st.tuples(st.just("replace"), st.booleans()),
    ),
    max_size=60,
)


class Followed:
    """A roster, and what somebody knows of it who hears its moves alone."""

    def __init__(self) -> None:
        self.roster = Roster(THREE)
        self.living = {engine.name: -STEADY_MS for engine in THREE}
        """Who is alive, since when."""
        self.owners: dict[int, str | None] = {}
        self.now_ms = 0
        self._begun = 0

    def take(self, moves: Sequence[Move]) -> None:
        for move in moves:
            assert move.before == self.owners[move.application] != move.after
            self.owners[move.application] = move.after

    def step(self, what: str, value: object) -> None:
        engines = self.roster.engines
        if isinstance(value, Asking):
            self._begun += 1
            application = self._begun
            self.owners[application] = self.roster.begin(application, value, self.now_ms)
        elif what == "replace":
            other = TWO if value else THREE
            known = {engine.name for engine in engines}
            new = {engine.name for engine in other}
            self.living = {name: since for name, since in self.living.items() if name in new}
            self.living |= dict.fromkeys(new - known, self.now_ms - STEADY_MS)
            self.take(self.roster.replace(other, self.now_ms, living=new - known))
        elif isinstance(value, int):
            self._count(what, value)

    def _count(self, what: str, value: int) -> None:
        engines, active = self.roster.engines, sorted(self.owners)
        name = engines[value % len(engines)].name
        if what == "dies":
            self.living.pop(name, None)
            self.take(self.roster.dies(name, self.now_ms))
        elif what == "returns":
            self.living.setdefault(name, self.now_ms)
            self.take(self.roster.returns(name, self.now_ms))
        elif what == "wait":
            self.now_ms += value
            due = self.roster.next_ms()
            if due != NEVER and due <= self.now_ms:
                self.take(self.roster.settle(self.now_ms))
        elif active and what == "end":
            self.roster.end(active[value % len(active)])
            del self.owners[active[value % len(active)]]
        elif active:
            move = self.roster.give_up(active[value % len(active)], self.now_ms)
            self.take([] if move is None else [move])


@given(steps)
def test_every_active_application_has_one_owner_and_that_one_is_alive(drawn: list[tuple[str, object]]) -> None:
    followed = Followed()
    for what, value in drawn:
        followed.step(what, value)
        for application, owner in followed.owners.items():
            assert followed.roster.owner(application) == owner
            assert (owner in followed.living) if followed.living else owner is None
        owned = [app for engine in followed.roster.engines for app in followed.roster.owned_by(engine.name)]
        assert sorted(owned) == sorted(app for app, owner in followed.owners.items() if owner is not None)


@given(st.lists(askings, max_size=8), steps)
def test_without_giving_up_an_application_is_at_home_while_that_is_steady_and_moves_only_for_a_reason(
    first: list[Asking], drawn: list[tuple[str, object]]
) -> None:
    followed = Followed()
    for asking in first:
        followed.step("begin", asking)
    for what, value in drawn:
        if what == "give up":
            continue
        before = dict(followed.owners)
        followed.step(what, value)
        for application, owner in followed.owners.items():
            home = followed.roster.home(application)
            since = followed.living.get(home)
            if since is not None and followed.now_ms - since >= STEADY_MS and what != "wait":
                assert owner == home
            was = before.get(application, owner)
            if was != owner:
                assert was not in followed.living or owner == home or what == "replace"


def test_copies_share_by_number_and_a_dead_copys_applications_go_to_the_next() -> None:
    made = Roster(TWO)
    owners = [made.begin(number, Asking(number, "root.a"), 0) for number in range(4)]
    assert owners == ["rest-1", "rest-2", "rest-1", "rest-2"]
    assert made.begin(4, Asking(7, "root.a", tasks=10), 0) == "large"
    moves = made.dies("rest-1", 1000)
    assert moves == [Move(0, "rest-1", "rest-2"), Move(2, "rest-1", "rest-2")]
    assert made.dies("large", 1000) == [Move(4, "large", "rest-2")]
    assert made.returns("rest-1", 5000) == []
    assert made.begin(5, Asking(2, "root.a"), 6000) == "rest-2", "not before it is steady"
    assert (made.next_ms(), made.settle(14_999)) == (15_000, [])
    assert [move.application for move in made.settle(15_000)] == [0, 2, 5]
    assert made.next_ms() == NEVER
    assert [move.after for move in made.dies("rest-2", 16_000)] == ["rest-1"] * 3
    assert [move.after for move in made.dies("rest-1", 16_000)] == [None] * 6
    assert {move.after for move in made.returns("rest-2", 17_000)} == {"rest-2"}, "better than nobody, steady or not"


def test_who_is_given_up_goes_to_the_fallback_and_stays_there() -> None:
    made = Roster(THREE)
    assert made.begin(1, Asking(4, "root.prod.etl", "Spark"), 0) == "service"
    assert made.give_up(1, 10) == Move(1, "service", "batch-2")
    assert made.settle(1_000_000) == []
    assert made.give_up(1, 20) is None
    assert [move.after for move in made.dies("batch-2", 30)] == ["batch-3"], "the next of the same entry"
    alone = Roster(roster(("one", Entry())))
    alone.begin(1, Asking(4, "root.a"), 0)
    assert alone.give_up(1, 10) is None


def test_selectors_match_by_all_of_their_lists() -> None:
    asking = Asking(1, "root.prod.etl", "spark", "ann", ("x", "nightly"), 5)
    assert matches(Select(), asking)
    for select, says in (
        (Select(queues=("root.prod",)), True),
        (Select(queues=("root.pro",)), False),
        (Select(queues=("root",)), True),
        (Select(types=("Spark", "tez")), True),
        (Select(types=("TEZ",)), False),
        (Select(tags=("nightly", "y")), True),
        (Select(tags=("night",)), False),
        (Select(users=("bob",)), False),
        (Select(tasks_min=5, tasks_max=5), True),
        (Select(tasks_min=6), False),
        (Select(tasks_max=4), False),
        (Select(users=("ann",), types=("TEZ",)), False),
    ):
        assert matches(select, asking) == says, select


def test_a_gang_is_the_largest_number_that_a_tag_names() -> None:
    assert gang_of(()) == 0
    assert gang_of(("treadle:gang=3", "treadle:gang=12", "treadle:gang=x", "treadle:gang=", "gang=99")) == 12
    assert gang_of(("treadle:gang=100000000000000000000",)) == 513
