"""What all tests share: property tests draw the same few examples each time, unless set to explore.

`make test-all` explores (`--hypothesis-profile explore`) with hypothesis' own number of examples; what it finds becomes
an example in the test. The same examples again prove little more than some of them, so that a change draws fewer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.util import find_spec

import pytest
from _pytest.capture import CaptureResult
from hypothesis import settings
from tests.support.cli import Cli
from tests.support.examples import SAME_EXAMPLES

pytest_plugins = ["tests.support.clock_tests"]

# A machine under load says nothing of a test, so no example has a deadline.
settings.register_profile("same", deadline=None, derandomize=True, max_examples=SAME_EXAMPLES)
settings.register_profile("explore", deadline=None)
settings.load_profile("same")


@pytest.fixture(scope="session", autouse=True)
def _no_command_begins_again() -> Iterator[None]:
    """A command that a test runs in its own process does not become another program, which would end the tests."""
    with pytest.MonkeyPatch.context() as patch:
        if find_spec("treadle_lab") is not None:
            patch.setattr("treadle_lab.cli._experiments.isolate", lambda: "")
        yield


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    from treadle.cli.main import run

    def ran(words: Sequence[str], code: int = 0) -> CaptureResult[str]:
        ended = run(words)
        printed = capsys.readouterr()
        assert ended == code, printed.err
        return printed

    return ran
