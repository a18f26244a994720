"""Sessions with YARN's web pages: what a refusal says."""

from __future__ import annotations

import pytest
import requests

from treadle.yarn import web


def answer(status: int, challenge: str | None) -> requests.Response:
    response = requests.Response()
    response.status_code = status
    if challenge is not None:
        response.headers["WWW-Authenticate"] = challenge
    return response


@pytest.mark.parametrize(("installed", "remedy"), [(False, "install treadle[kerberos]"), (True, "run kinit")])
def test_a_challenge_names_what_is_missing(monkeypatch: pytest.MonkeyPatch, installed: bool, remedy: str) -> None:
    monkeypatch.setattr(web, "can_negotiate", lambda: installed)

    said = web.why_refused(answer(401, "Negotiate"))

    assert said.startswith("HTTP 401: the server wants Kerberos")
    assert remedy in said
    refusal = web.refusal_of(answer(401, "Negotiate"))
    assert refusal.reason == "HTTP 401"
    assert said == f"{refusal.reason}: {refusal.remedy}"


@pytest.mark.parametrize(("status", "challenge"), [(401, "Basic"), (401, None), (403, "Negotiate"), (500, None)])
def test_other_refusals_are_shown_as_they_are(status: int, challenge: str | None) -> None:
    assert web.why_refused(answer(status, challenge)) == f"HTTP {status}"


def test_no_answer_is_called_that() -> None:
    assert web.why_refused(None) == "no answer"
