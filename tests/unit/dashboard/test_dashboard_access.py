"""Who gets an answer of a real server, and what every answer tells a browser."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from starlette.types import Message
from tests.support.cluster_pages import FakeCluster, job
from tests.support.dashboards import ANSWER_S, TOKEN, Dashboard, dashboard
from tests.support.pages import served

from treadle.dashboard import server
from treadle.dashboard.collector import Board
from treadle.dashboard.server import COOKIE, COOKIE_LIFE_S, REFUSED, Authenticator, addresses
from treadle.errors import UserError

HOSTILE = '</script><img src=x onerror=alert(1)>"\n'
BEHIND_A_PROXY = "https://treadle.example.org"


def explain(application: str) -> dict[str, Any]:
    if application.endswith("_0002"):
        raise UserError("no sidecar can be asked")
    return {"application": application, "name": HOSTILE, "asks": []}


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    cluster = FakeCluster()
    cluster.jobs = [job(1, HOSTILE)]
    with (
        served(cluster),
        dashboard(cluster.url, tmp_path_factory.mktemp("dashboard"), explain, (BEHIND_A_PROXY,)) as found,
    ):
        yield found


def log_in(shown: Dashboard, token: str, **headers: str) -> requests.Response:
    headers = {"Origin": shown.url, **headers}
    return requests.post(
        f"{shown.url}/login", {"token": token}, headers=headers, timeout=ANSWER_S, allow_redirects=False
    )


PAGES = ("/", "/api/overview", "/api/nodes", "/api/events", "/api/history?name=x", "/metrics", "/static/app.js")


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": "Bearer "},
        {"Cookie": f"{COOKIE}={TOKEN}"},
        {"Cookie": f"{COOKIE}=99999999999.{'0' * 64}"},
        {"Cookie": f"{COOKIE}=9.9; " + "x" * 5000},
    ],
    ids=["nothing", "wrong", "kind", "empty", "token as cookie", "signature", "long"],
)
def test_without_the_token_nobody_gets_anything(shown: Dashboard, path: str, headers: dict[str, str]) -> None:
    answer = shown.get(path, headers=headers)
    to_log_in = answer.status_code == 303 and answer.headers["Location"] == "/login"
    assert answer.status_code == 401 or (path == "/" and to_log_in)
    assert "application_1" not in answer.text


@pytest.mark.parametrize("path", ["/", "/api/overview", "/metrics", "/static/app.js", "/static/draw.js"])
def test_with_the_token_pages_are_shown(shown: Dashboard, path: str) -> None:
    assert shown.get(path).status_code == 200


def test_the_token_becomes_a_cookie_that_scripts_and_other_sites_do_not_get(shown: Dashboard) -> None:
    answer = log_in(shown, TOKEN)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/")
    cookie = answer.headers["Set-Cookie"]
    parts = {part.strip().lower() for part in cookie.split(";")[1:]}
    assert {"httponly", "samesite=strict", "path=/", f"max-age={COOKIE_LIFE_S}"} <= parts
    assert "secure" not in parts
    assert TOKEN not in cookie
    value = cookie.split(";")[0]
    assert shown.get("/api/overview", headers={"Cookie": value}).status_code == 200


def test_behind_a_proxy_that_speaks_https_the_cookie_is_secure(shown: Dashboard) -> None:
    answer = log_in(shown, TOKEN, Host="treadle.example.org", Origin=BEHIND_A_PROXY)
    assert answer.status_code == 303
    assert "secure" in answer.headers["Set-Cookie"].lower().replace(" ", "").split(";")


def test_a_wrong_token_says_so_and_gives_no_cookie(shown: Dashboard) -> None:
    answer = log_in(shown, "wrong")
    assert answer.status_code == 401
    assert "This is not the token." in answer.text
    assert "Set-Cookie" not in answer.headers
    assert log_in(shown, "x" * 10_000).status_code == 413
    before = requests.get(f"{shown.url}/login", timeout=ANSWER_S)
    assert before.status_code == 200
    assert "This is not the token." not in before.text
    assert REFUSED not in before.text + answer.text


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1", "localhost:1", "treadle.example.org.evil.example", "", "treadle.example.org:80"],
)
def test_a_name_that_dns_was_led_here_by_gets_no_answer(shown: Dashboard, host: str) -> None:
    for path in ("/login", "/api/overview"):
        answer = shown.get(path, headers={"Host": host, "Authorization": f"Bearer {TOKEN}"})
        assert answer.status_code in (400, 421)
        assert "application_1" not in answer.text
    assert log_in(shown, TOKEN, Host=host).status_code in (400, 421)


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1", "http://treadle.example.org", ""]
)
def test_another_site_gets_no_answer(shown: Dashboard, origin: str) -> None:
    headers = {"Origin": origin, "Authorization": f"Bearer {TOKEN}"}
    assert shown.get("/api/overview", headers=headers).status_code == 403
    assert log_in(shown, TOKEN, Origin=origin).status_code == 403


def test_a_form_without_origin_is_refused(shown: Dashboard) -> None:
    answer = requests.post(f"{shown.url}/login", {"token": TOKEN}, timeout=ANSWER_S, allow_redirects=False)
    assert answer.status_code == 403


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"])
def test_it_is_only_read(shown: Dashboard, method: str) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    assert requests.request(method, f"{shown.url}/api/overview", headers=headers, timeout=ANSWER_S).status_code == 405


@pytest.mark.parametrize("path", ["/", "/login", "/api/jobs", "/api/nothing", "/nothing", "/static/../server.py"])
@pytest.mark.parametrize("headers", [{}, {"Authorization": f"Bearer {TOKEN}"}, {"Host": "evil.example"}])
def test_every_answer_tells_browsers_to_run_nothing_of_others(
    shown: Dashboard, path: str, headers: dict[str, str]
) -> None:
    told = shown.get(path, headers=headers).headers
    policy = told["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert told["X-Content-Type-Options"] == "nosniff"
    assert told["Cache-Control"] == "no-store"
    assert "Access-Control-Allow-Origin" not in told
    assert "server" not in {name.lower() for name in told}


def test_pages_hold_no_script_and_no_style_of_their_own(shown: Dashboard) -> None:
    for path in ("/", "/login"):
        text = shown.get(path).text
        assert "<style" not in text
        assert " style=" not in text
        assert " on" not in text.replace(" on ", "").replace(" one", "")
        assert text.count("<script") == text.count("<script src=")


def test_scripts_put_in_texts_as_texts_alone() -> None:
    folder = Path(server.__file__).parent / "static"
    for script in folder.glob("*.js"):
        for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "http://", "https://"):
            found = script.read_text().replace("http://www.w3.org/2000/svg", "")
            assert way not in found, f"{script.name}: {way}"


def test_hostile_names_are_json(shown: Dashboard) -> None:
    answer = shown.get("/api/jobs")
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.json()["running"][0]["name"] == HOSTILE


def test_an_application_is_explained_or_it_says_why_not(shown: Dashboard) -> None:
    found = shown.get("/api/application/application_1_0001").json()
    assert found["explained"]["name"] == HOSTILE
    assert found["asks"] == [
        {
            "priority": 20,
            "stage": "maps",
            "memory_mb": 1024,
            "vcores": 1,
            "others": "2 yarn.io/gpu",
            "label": "",
            "count": 7,
        }
    ]
    found = shown.get("/api/application/application_1_0002").json()
    assert found["explain_error"] == "no sidecar can be asked"
    for name in ("1", "application_1_1x", "application_1_0001%2f..%2f..%2fjmx"):
        assert shown.get(f"/api/application/{name}").status_code in (400, 404)


def test_history_is_asked_within_bounds(shown: Dashboard) -> None:
    found = shown.get("/api/history?name=nodes&span_s=900").json()
    assert [value for _, value in found["series"]["nodes"]]
    for query in ("span_s=x", "span_s=0", "span_s=999999999", "&".join(["name=a"] * 300)):
        assert shown.get(f"/api/history?{query}").status_code == 400


def test_streams_are_bounded_and_give_their_place_back() -> None:
    async def main() -> None:
        events, leave = server.Stream(Board()), asyncio.Event()

        async def receive() -> Message:
            await leave.wait()
            return {"type": "http.disconnect"}

        async def visit(sent: list[Message]) -> None:
            async def send(message: Message) -> None:
                sent.append(message)

            await events({"type": "http", "method": "GET", "headers": []}, receive, send)

        told: list[list[Message]] = [[] for _ in range(server.CLIENTS_MAX)]
        visits = [asyncio.create_task(visit(sent)) for sent in told]
        while not all(len(sent) >= 2 for sent in told):
            await asyncio.sleep(0)
        assert {sent[0]["status"] for sent in told} == {200}
        assert all(b'"version": 0' in sent[1]["body"] for sent in told)
        refused: list[Message] = []
        await visit(refused)
        assert refused[0]["status"] == 503
        assert (b"retry-after", b"30") in refused[0]["headers"]
        events.wake()
        while not all(len(sent) >= 3 for sent in told):
            await asyncio.sleep(0)
        leave.set()
        await asyncio.gather(*visits)
        assert events.clients == 0
        again: list[Message] = []
        await visit(again)
        assert again[0]["status"] == 200

    asyncio.run(main())


def test_cookies_end_and_another_token_makes_them_worthless() -> None:
    doorkeeper = Authenticator(TOKEN)
    cookie = doorkeeper.cookie(1000.0)
    assert doorkeeper.knows(cookie, 1000.0 + COOKIE_LIFE_S - 1)
    assert not doorkeeper.knows(cookie, 1000.0 + COOKIE_LIFE_S)
    assert not doorkeeper.knows(f"9{cookie}", 1000.0)
    assert not doorkeeper.knows("\u0661.\u0661", 0.0)
    assert not Authenticator(f"{TOKEN}x").knows(cookie, 1000.0)


def test_others_than_this_host_come_only_under_a_name_that_was_given() -> None:
    with pytest.raises(UserError, match="--url https://NAME"):
        addresses("0.0.0.0", 8190, ())
    assert "a.example:443" in addresses("0.0.0.0", 8190, ["https://A.example"]).hosts
    assert "a.example" not in addresses("::1", 8190, ()).hosts
    for url in (
        "a.example",
        "ftp://a.example",
        "https://a.example/path",
        "https://u@a.example",
        "https://a:x",
        "http://",
    ):
        with pytest.raises(UserError, match="--url"):
            addresses("127.0.0.1", 8190, [url])
    with pytest.raises(UserError, match="--bind"):
        addresses("localhost.example", 8190, ())
