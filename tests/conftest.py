"""What all tests share: property tests draw the same examples each time, unless told to explore.

`make test-all` explores (`--hypothesis-profile explore`); what it finds becomes an example in the test.
"""

from __future__ import annotations

from hypothesis import settings

pytest_plugins = ["tests.support.clock_tests"]

# A machine under load says nothing of a test, so no example has a deadline.
settings.register_profile("same", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None)
settings.load_profile("same")
