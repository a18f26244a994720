"""A headless Chromium that opens a dashboard's pages."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

WAIT_MS: Final = 180_000
_NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
_INSTALL: Final = "Debian: apt-get install chromium; then make test-all, or pip install --group browser"


class MissingBrowserError(Exception):
    """There is no browser to test with; the text says what to install."""


@contextmanager
def chromium() -> Iterator[Any]:
    """Run a browser of the system's; gives playwright's ``Browser``.

    Raises:
        MissingBrowserError: Chromium or playwright is missing.
    """
    program = next(filter(None, map(shutil.which, _NAMES)), None)
    if program is None:
        raise MissingBrowserError(f"chromium is missing. {_INSTALL}")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError as error:
        raise MissingBrowserError(f"the package playwright is missing. {_INSTALL}") from error
    with sync_playwright() as playwright:
        # a sandbox needs rights that a container, or root, may not have; the only pages are our own
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


class Visitor:
    """Somebody who looks at a dashboard, and what went wrong in the browser meanwhile."""

    def __init__(self, browser: Any, url: str, width: int = 1280, height: int = 900) -> None:
        self.url = url
        self.context = browser.new_context(viewport={"width": width, "height": height})
        self.context.set_default_timeout(WAIT_MS)
        self.page = self.context.new_page()
        self.errors: list[str] = []
        """Of scripts, and what the browser refused, as by the Content-Security-Policy."""
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self._note)

    def _note(self, message: Any) -> None:
        # that a request failed is said by the pages themselves, where it matters
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.errors.append(message.text)

    def log_in(self, token: str) -> None:
        """Type the token and send the form."""
        self.page.goto(f"{self.url}/login")
        self.page.fill("input[name=token]", token)
        self.page.click("button")

    def open(self, page: str) -> str:
        """Open a page of the dashboard; return its text once it is drawn."""
        self.page.goto(f"{self.url}/#{page}")
        self.page.wait_for_selector(f"main[data-page={page.partition('/')[0]}] section")
        return self.text()

    def text(self) -> str:
        """Return what is shown now."""
        return str(self.page.inner_text("body"))

    def wait_for(self, text: str) -> None:
        """Wait until something is shown."""
        from playwright.sync_api import TimeoutError as PlaywrightTimeoutError

        try:
            self.page.wait_for_function("text => document.body.innerText.includes(text)", arg=text)
        except PlaywrightTimeoutError as error:
            raise AssertionError(f"{text!r} is not shown, but: {self.text()[:4000]}") from error

    def close(self) -> None:
        """Leave."""
        self.context.close()
