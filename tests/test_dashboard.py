"""The page in a real browser, and who can read it."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.request import Request, urlopen

import pytest
from browser import Browser, program
from pyspark.sql import DataFrame, SparkSession
from spark_samples import Feed, soon
from test_monitoring import HOSTILE, NOON, alone, cached, cycle, ended, full, nothing, totals  # noqa: F401

import bsjoin
from bsjoin.errors import ArgumentError
from bsjoin.monitoring import dashboard as pages
from bsjoin.monitoring import watching
from bsjoin.monitoring.watching import Watched


class Query:
    """A query that does nothing more."""

    name = HOSTILE
    id = "q"
    isActive = True  # noqa: N815
    lastProgress = None  # noqa: N815
    recentProgress: tuple[Any, ...] = ()  # noqa: N815

    def exception(self) -> Exception | None:
        return None


class Waiting(Query):
    """One whose session answers when a test lets it."""

    def __init__(self) -> None:
        self.asked, self.answers = threading.Event(), threading.Event()

    @property
    def lastProgress(self) -> None:  # type: ignore[override]  # noqa: N802
        self.asked.set()
        assert self.answers.wait(20)


def watched(query: Query | None = None, known: Any = None) -> Watched:
    """A query that has done something; by default all there is, names that are markup included."""
    found = Watched([query or Query()], every_s=0.01)
    found.totals._queries["q"] = known or totals(*map(full, range(6)), name=HOSTILE)
    found._ids[0] = "q"
    return found


@pytest.fixture
def page() -> Iterator[pages.Dashboard]:
    with pages.Dashboard(watched(), 0, frozenset({"books.example"})) as made:
        yield made


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    found = program()
    if found is None:
        pytest.skip("needs chromium")
    made = Browser(found)
    yield made
    made.close()


def ask(page: pages.Dashboard, path: str, **headers: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", page._server.server_port, timeout=10)
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request("GET", path, headers={"Host": "localhost", **given})
    return connection.getresponse()


# -- who can read it -------------------------------------------------------------------------------


def test_requests_for_other_names_are_refused(page: pages.Dashboard) -> None:
    for host in (
        "127.0.0.1:4040", "localhost", "LOCALHOST:1", "[::1]:8080", "books.example",
        "Books.Example:443",
    ):  # fmt: skip
        assert ask(page, "/data.json", Host=host).status == 200, host
    for host in (
        "evil.example", "localhost.evil.example", "192.0.2.7", "0.0.0.0", "", "[",
        "127.0.0.1.evil.example",
    ):  # fmt: skip
        for path in ("/", "/data.json", "/metrics"):
            assert ask(page, path, Host=host).status == 403, host


def test_other_web_sites_read_nothing(page: pages.Dashboard) -> None:
    for site in ("cross-site", "same-site"):
        assert ask(page, "/data.json", Sec_Fetch_Site=site, Sec_Fetch_Mode="cors").status == 403
        for place in ("iframe", "image", "empty"):
            told = {"Sec_Fetch_Site": site, "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": place}
            assert ask(page, "/", **told).status == 403
        assert ask(page, "/", Sec_Fetch_Site=site, Sec_Fetch_Dest="document").status == 200
    answer = ask(page, "/", Origin="https://evil.example")
    assert answer.getheader("Access-Control-Allow-Origin") is None
    assert answer.getheader("X-Content-Type-Options") == "nosniff"
    policy = answer.getheader("Content-Security-Policy") or ""
    assert {"default-src 'none'", "frame-ancestors 'self'"} <= {*policy.split("; ")}
    text = answer.read().decode()
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in text
    for method in ("POST", "PUT", "DELETE"):
        with pytest.raises(OSError, match="501"):
            urlopen(Request(page.url, method=method, data=b""))


def test_an_address_that_is_none_is_answered(
    page: pages.Dashboard, caplog: pytest.LogCaptureFixture
) -> None:
    for path, status in (("http://[", 400), ("//[", 200), ("/%ff/data.json?seen=%ff&seen", 200)):
        assert ask(page, path).status == status, path
    assert caplog.records == []


def test_connections_are_few_and_faults_are_logged(
    page: pages.Dashboard, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    address = "127.0.0.1", page._server.server_port
    held = []
    for _ in range(pages._CONNECTIONS):
        held.append(socket.create_connection(address))
        time.sleep(0.005)  # where many come at once, the kernel lets some wait for seconds
    with socket.create_connection(address) as more:
        more.settimeout(10)
        assert more.recv(1) == b""  # closed, and not kept
    for one in held:
        one.close()
    deadline = time.monotonic() + 10
    while True:
        try:
            assert ask(page, "/data.json").status == 200
            break
        except (OSError, http.client.HTTPException):
            assert time.monotonic() < deadline
    assert caplog.records == []
    monkeypatch.setattr(pages.openmetrics, "text", lambda found: 1 / 0)
    with pytest.raises(http.client.HTTPException):
        ask(page, "/metrics")
    soon(lambda: len(caplog.records), 1)
    assert "a request has failed: ZeroDivisionError" in caplog.text


def test_a_process_without_a_thread_to_spare_answers_again_later(
    page: pages.Dashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", start)
        for _ in range(pages._CONNECTIONS + 1):
            with pytest.raises((OSError, http.client.HTTPException)):
                ask(page, "/data.json")
    assert ask(page, "/data.json").status == 200


def test_requests_that_are_refused_keep_no_page_open(page: pages.Dashboard) -> None:
    asked = page._server.asked
    for told in ({"Host": "evil.example"}, {"Sec_Fetch_Site": "cross-site"}):
        assert ask(page, "/data.json", **told).status == 403
    assert page._server.asked == asked
    assert ask(page, "/data.json").status == 200
    assert page._server.asked > asked


def test_arguments_that_cannot_be_used_say_why(page: pages.Dashboard) -> None:
    for given, told in (
        ((), "give what start"),
        ((7,), "dashboard.* of a int"),
        ((SimpleNamespace(recentProgress=[]),), "SimpleNamespace"),
    ):
        with pytest.raises(ArgumentError, match=told):
            bsjoin.dashboard(*given)
    for port in (-1, 1 << 16, "4040", True, 1.0):
        with pytest.raises(ArgumentError, match=r"port=.*: give a number from 1 to 65535"):
            bsjoin.dashboard(Query(), port=port)  # type: ignore[arg-type]
    for hosts in (
        "books.example", [""], [7], ["https://books.example"], ["books.example:443"], ["a/b"],
        ["b\u00fccher.example"],
    ):  # fmt: skip
        with pytest.raises(ArgumentError, match="hosts="):
            bsjoin.dashboard(Query(), hosts=hosts)  # type: ignore[arg-type]
    with bsjoin.dashboard(Query(), hosts=iter(["Books.example", "2001:db8::1"])) as made:  # type: ignore[arg-type]
        for host in ("books.example:443", "[2001:db8::1]:443"):
            assert ask(made, "/data.json", Host=host).status == 200
    taken = page._server.server_port
    with pytest.raises(ArgumentError, match=rf"port={taken}: .*in use.*port=0 takes any"):
        bsjoin.dashboard(Query(), port=taken)


class Broken(Query):
    """A query that ends with an error."""

    def exception(self) -> Exception:
        return ValueError("postgresql://me:secret@db/shop is away")


# -- how long it lives -----------------------------------------------------------------------------


def test_it_ends_with_its_block_and_once_more_does_nothing() -> None:
    with bsjoin.dashboard(Query()) as made:
        port = made._server.server_port
        assert ask(made, "/data.json").status == 200
        assert made.url in made._repr_html_()
    made.close()
    assert repr(made) == "Dashboard(closed)"
    assert not made.is_open
    with pytest.raises(OSError, match="refused"), socket.create_connection(("127.0.0.1", port)):
        pass
    with bsjoin.dashboard(Query(), port=port):  # at once again
        pass


def test_a_page_that_nobody_closed_ends_some_time_after_its_queries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, query = [0.0], Query()
    monkeypatch.setattr(pages, "_LOOKS_S", 0.01)
    with monkeypatch.context() as patched:
        patched.setattr("bsjoin.monitoring.dashboard.time.monotonic", lambda: now[0])
        made = bsjoin.dashboard(query)
        for _ in range(2):
            now[0] += pages._FORGOTTEN_S - 1
            assert not made._closed.wait(0.1)
            ask(made, "/data.json").read()
        query.isActive = False
        now[0] += pages._LINGERS_S - 1
        soon(lambda: made._server.watched.is_over, True)
        now[0] += 2  # since it has ended, not since somebody has looked
        assert not made._closed.wait(0.1)
        now[0] += pages._LINGERS_S
        assert made._closed.wait(20)
        idle = bsjoin.dashboard(Query())  # it never ends, and nobody looks
        now[0] += pages._FORGOTTEN_S + 1
        assert idle._closed.wait(20)
    soon(lambda: any(one.name == "bsjoin-dashboard" for one in threading.enumerate()), False)


def test_looks_cost_a_hundredth_and_one_that_waits_does_not_stop_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, spent = [0.0], [0.0]
    monkeypatch.setattr("bsjoin.monitoring.watching.time.monotonic", lambda: now[0])
    monkeypatch.setattr("bsjoin.monitoring.watching.time.thread_time", lambda: spent[0])
    waits = works = 0.0
    looks = 0

    class Slow(Query):
        @property
        def lastProgress(self) -> None:  # type: ignore[override]  # noqa: N802
            nonlocal looks
            looks += 1
            now[0] += waits
            spent[0] += works

    found = Watched([Slow()], every_s=1)
    for waited, worked, pause in ((300.0, 0.0, 1), (0.05, 0.05, 5), (60.0, 60.0, 30)):
        waits, works, looks = waited, worked, 0
        found.look()
        now[0] += pause - 0.1
        found.look()
        assert looks == 1
        now[0] += 0.2
    found.look()
    assert looks == 2


def test_the_next_look_comes_half_a_minute_later_whatever_a_look_and_its_text_cost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spent = iter(range(0, 9000, 60))
    monkeypatch.setattr("bsjoin.monitoring.watching.time.thread_time", lambda: next(spent))
    found = Watched([Steps(ended(0))])
    found.look()
    found.as_json()
    assert 0 < found._next - time.monotonic() <= watching._LONGEST_S


def test_a_query_that_is_given_twice_is_shown_twice_and_read_once() -> None:
    query = Steps(ended(0))
    found = Watched([query, query], every_s=0)
    look(found)
    shown = json.loads(found.as_json())["queries"]
    assert [[one["n"] for one in each["batches"]] for each in shown] == [[0], [0]]
    assert found.totals.of("q").batches == 1  # type: ignore[union-attr]


def test_a_version_is_told_once_of_the_micro_batch_that_took_it_up() -> None:
    later = (cycle(n, table_version=2) for n in range(3, 110))
    rows = [cycle(0), nothing(1), cycle(2), *later, nothing(110)]
    join = join_of(*rows)
    assert [(one["version"], one["n"]) for one in join["versions"]] == [(1, 0), (2, 3)]


def test_nulls_alone_have_no_share_in_the_cache() -> None:
    join = join_of(cycle(0, cache=cached(hits=0, misses=0)), cycle(1, cache=cached()))
    assert [one["cached"] for one in join["history"]] == [None, 0.9]


def test_a_cache_that_no_task_used_is_not_empty_and_what_is_rare_is_summed() -> None:
    used = cached(rows=5, bytes=700, evictions=2, failed_keys=1)
    unused = cached(hits=0, misses=0, hosts=(), hottest=())
    join = join_of(*(cycle(n, cache=used) for n in (0, 1)), nothing(2, cache=unused))
    assert [join["cache"][one] for one in ("bytes", "evictions", "failed_keys")] == [700, 4, 2]
    assert [one["bytes"] for one in join["history"]] == [700, 700, None]


def test_refreshes_are_shown_while_a_query_waits_for_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    found, seen = watched(), []
    later = replace(full().refresh, last_success=NOON + timedelta(hours=1))  # type: ignore[type-var]
    monkeypatch.setattr("bsjoin.monitoring.totals.of_join", {1: later}.get)
    for _ in range(2):
        look(found)
        seen.append(found.number)
    (join,) = shown(found)["joins"]
    assert datetime.fromisoformat(join["refresh"]["last_success"]) == NOON + timedelta(hours=1)
    assert seen[0] == seen[1]  # nothing new


def shown(found: Watched) -> Any:
    """What the page shows of the first query."""
    return json.loads(found.as_json())["queries"][0]


def join_of(*cycles: bsjoin.CycleProgress) -> Any:
    """What it shows of their join."""
    (join,) = shown(watched(known=totals(*cycles)))["joins"]
    return join


def test_a_session_that_does_not_answer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    query = Waiting()
    found = Watched([query], every_s=0)
    looking = threading.Thread(target=found.look)
    looking.start()
    assert query.asked.wait(20)
    for limit_s, is_silent in ((60.0, False), (0.0, True)):
        monkeypatch.setattr(watching, "_SILENT_S", limit_s)
        assert found.is_looking()
        assert json.loads(found.as_json())["is_silent"] == is_silent
    query.answers.set()
    looking.join()
    assert not found.is_looking()
    assert not json.loads(found.as_json())["is_silent"]


def test_what_is_known_is_told_while_a_session_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A look of half a minute left nothing but questions without an answer."""
    query = Waiting()
    monkeypatch.setattr(pages, "_WAITS_S", 0.05)
    with pages.Dashboard(watched(query), 0, frozenset()) as page:
        for _ in range(2):
            assert ask(page, "/data.json").status == 200
            assert b"bsjoin_input_rows_total" in ask(page, "/metrics").read()
        assert page._server.watched.is_looking()
        query.answers.set()


def test_the_micro_batch_before_an_idle_report_is_read() -> None:
    query = Steps(ended(5))
    found = Watched([query], every_s=0)
    look(found)
    query.recentProgress += (ended(6), ended(7, numInputRows=0, durationMs={}))
    look(found)
    assert numbers(found) == [5, 6]


def test_the_last_micro_batch_is_read_with_the_end() -> None:
    class Ending(Steps):
        @property
        def isActive(self) -> bool:  # type: ignore[override]  # noqa: N802
            self.recentProgress += (ended(1),)  # it ends just then
            return False

    found = Watched([Ending(ended(0))], every_s=0)
    look(found)
    assert numbers(found) == [0, 1]
    assert found.is_over


def test_a_look_that_fails_says_why_and_the_next_one_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    query = Steps(ended(0))
    found = Watched([query], every_s=0)
    with monkeypatch.context() as broken:
        broken.setattr("bsjoin.monitoring.totals.progress", lambda given: 1 / 0)
        look(found)
        look(found)
    state = shown(found)
    assert (state["state"], state["name"]) == ("running", HOSTILE)
    assert "figures cannot be read: ZeroDivisionError" in state["error"]
    assert len(caplog.records) == 1
    assert not found.is_over
    look(found)
    assert numbers(found) == [0]
    assert shown(found)["error"] == ""


class Steps(Query):
    """A query with the progress of these."""

    def __init__(self, *done: Any):
        self.recentProgress = done

    @property
    def lastProgress(self) -> Any:  # type: ignore[override]  # noqa: N802
        return self.recentProgress[-1]


def look(found: Watched) -> None:
    """Look without the pause that is due."""
    found._next = 0.0
    found.look()


def numbers(found: Watched) -> list[int]:
    """Those of the micro-batches of the first query that the page shows."""
    return [one["n"] for one in shown(found)["batches"]]


def test_a_query_that_fails_is_told() -> None:
    broken = Broken()
    broken.isActive = False
    found = watched(broken, totals(full(0), cycle(1, hits=float("nan"))))
    found.look()
    data = shown(found)
    assert data["state"] == "failed"
    assert data["joins"][0]["history"][1]["hit"] is None
    assert "secret" not in data["error"]
    assert found.is_over


# -- in a browser ----------------------------------------------------------------------------------

DRAWN = "document.querySelectorAll('figure').length > 4"


def test_the_page_shows_all_and_texts_of_others_are_texts(
    page: pages.Dashboard, browser: Browser
) -> None:
    browser.told.clear()
    browser.look()
    browser.open(page.url, DRAWN)
    text = browser.run("document.body.innerText")
    for told in ("Rows a second", "Micro-batch p99", "500 ms", "Hit rate", "Skew (DS)", "1 of 2",
                 "$0.250", "SourceError: gone", "h-1/1", "Rows that wait", "Wait now",
                 "700 bytes", "Lag of the table", "2.5 s", "Its version in the table: 17, co",
                 "the source has version 18", "what has changed: 5; by reading the source whole: 2",
                 "Version\tSource\tBatch"):  # fmt: skip
        assert told in text, told
    assert HOSTILE.split("\n")[0] in text
    assert browser.run("document.images.length") == 0
    assert browser.run("document.querySelector('main rect').getAttribute('height')") == "76.00"
    assert browser.told == []


def test_it_is_used_by_keyboard_and_read_aloud(page: pages.Dashboard, browser: Browser) -> None:
    browser.look()
    browser.open(page.url, DRAWN)
    nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
    named = [
        (one["role"]["value"], one.get("name", {}).get("value", ""))
        for one in nodes
        if not one["ignored"]
    ]
    roles = [role for role, _ in named]
    assert {"banner", "main", "contentinfo", "heading", "status", "button", "region"} <= {*roles}
    for role in ("image", "img", "button", "region", "link", "table"):
        assert all(name for one, name in named if one == role), role
    pictures = [name for role, name in named if role in ("img", "image")]
    assert any(name.startswith("Hit rate: last 90.0 %; most 90.0 %") for name in pictures)

    spoken = "document.querySelectorAll('[role=status], [aria-live], output').length"
    assert browser.run(spoken) == 1  # figures change every two seconds, and are not read aloud

    browser.key("Tab")
    assert browser.run("document.activeElement.className") == "skip"
    browser.key("Tab")
    assert browser.run("document.activeElement.id") == "pause"
    browser.key(" ")
    assert browser.run("document.activeElement.getAttribute('aria-pressed')") == "true"
    browser.key(" ")
    browser.run("document.querySelector('figure summary').focus()")
    browser.key("Enter")
    browser.wait("document.querySelector('figure table')")
    browser.run("window.held = document.querySelector('figure table'); 1")
    page._server.watched.totals.of("q").add(  # type: ignore[union-attr]
        totals(full(0), full(6)).recent[-1]
    )
    page._server.watched._note_change()
    browser.run("look()")
    rows = "[...held.tBodies[0].rows]"
    browser.wait(f"{rows}.length === 7")
    assert browser.run("held.isConnected && document.activeElement.tagName") == "SUMMARY"


def test_what_is_not_there_any_more_leaves_and_what_is_new_is_in_its_place(
    page: pages.Dashboard, browser: Browser
) -> None:
    def then(**changed: Any) -> None:
        last = totals(full(0), replace(full(6), **changed)).recent[-1]
        page._server.watched.totals.of("q").add(last)  # type: ignore[union-attr]
        page._server.watched._note_change()
        browser.run("look()")

    browser.look()
    browser.open(page.url, DRAWN)
    assert "Most frequent keys" in browser.run("document.body.innerText")
    then(cache=cached(hottest=()), refresh=replace(full().refresh, last_error=None))  # type: ignore[type-var]
    browser.wait("!document.body.innerText.includes('Most frequent keys')")
    assert "SourceError" not in browser.run("document.body.innerText")
    then()
    browser.wait("document.body.innerText.includes('SourceError')")
    last = (
        "[...document.querySelectorAll('.card')].find((one) => one.textContent.includes('SourceE'))"
    )
    assert browser.run(f"{last}.lastElementChild.textContent.includes('Versions taken up')")
    assert "Most frequent keys" in browser.run("document.body.innerText")


def test_queries_that_fail_are_told_and_what_is_paused_stays(browser: Browser) -> None:
    queries = [Broken(), Broken()]
    queries[1].isActive = False
    with pages.Dashboard(Watched(queries, every_s=0), 0, frozenset()) as page:
        state = "document.getElementById('state').textContent"
        browser.look()
        browser.open(page.url, f"{state} === '1 of 2 queries run, 1 failed'")
        told = browser.run("[...document.querySelectorAll('nav a')].map((one) => one.textContent)")
        assert [one.endswith(" (failed)") for one in told] == [False, True]
        browser.run("window.answered = fetch; window.fetch = async (...given) => {"
                    "  pause.click(); const found = await answered(...given);"
                    "  window.asked = true; return found; }; 1")  # fmt: skip
        queries[0].isActive = False
        page._server.watched.look()
        browser.run("look()")
        browser.wait("window.asked")
        browser.run("new Promise((done) => setTimeout(done, 100))")
        assert (
            browser.run(state) == "1 of 2 queries run, 1 failed"
        )  # the answer came after the pause
        browser.run("window.fetch = answered; pause.click()")
        browser.wait(f"{state} === 'All queries have ended, 2 of 2 failed'")
    with pages.Dashboard(Watched(queries[:1]), 0, frozenset()) as page:
        browser.open(page.url, f"{state} === 'The query has failed'")
        browser.open("about:blank")


def test_a_page_that_waits_for_its_query_says_so(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = Waiting()
    query.answers.set()
    monkeypatch.setattr(watching, "_SILENT_S", 0.0)
    state = "document.getElementById('state').textContent"
    with pages.Dashboard(Watched([query], every_s=0), 0, frozenset()) as page:
        browser.look()
        browser.open(page.url, f"{state} === 'The query runs'")
        query.answers.clear()
        browser.run("patienceMs = 200; look(); 1")
        browser.wait(f"{state}.startsWith('No answer yet')")
        browser.run("look(); 1")
        browser.wait(f"{state}.startsWith('The session of a query does not answer')")
        query.answers.set()
        browser.run("patienceMs = 20000; look(); 1")
        browser.wait(f"{state} === 'The query runs'")
        browser.open("about:blank")


def test_colours_can_be_told_apart_and_nothing_is_cut_off(
    page: pages.Dashboard, browser: Browser
) -> None:
    contrast = """(() => {
      const light = (color) => {
        const [r, g, b] = color.match(/[0-9.]+/g).map((x) => x / 255)
          .map((x) => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      const back = (node) => {
        for (; node; node = node.parentElement) {
          const color = getComputedStyle(node).backgroundColor;
          if (color !== "rgba(0, 0, 0, 0)") return color;
        }
        return "rgb(255, 255, 255)";
      };
      const ratio = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
      const all = (what) => [...document.querySelectorAll(what)];
      const texts = all("h1,h2,h3,h4,p,dt,dd,th,td,summary,span,a,button");
      const lines = all("polyline").map((node) => getComputedStyle(node).stroke);
      const read = (node) => ratio(light(getComputedStyle(node).color), light(back(node)));
      const card = light(back(document.querySelector("figure")));
      return [
        Math.min(...texts.map(read)),
        Math.min(...lines.map((color) => ratio(light(color), card))),
        [document.documentElement, ...(innerWidth < 390 ? [] : all(".scroll"))]
          .every((one) => one.scrollWidth <= one.clientWidth),
      ];
    })()"""
    for width, scheme in ((1280, "light"), (390, "light"), (320, "dark")):
        browser.look(width, scheme, **{"prefers-reduced-motion": "reduce"})
        browser.open(page.url, DRAWN)
        browser.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        browser.wait("document.querySelector('figure table')")
        text, line, fits = browser.run(contrast)
        assert text >= 4.5
        assert line >= 3
        assert fits, width
        assert browser.run("document.getAnimations().length") == 0


class Proxy(BaseHTTPRequestHandler):
    """Serves the page below a path, under a name of its own."""

    port = 0

    def do_GET(self) -> None:
        place = self.path.removeprefix("/user/me/proxy/4040")
        url = f"http://127.0.0.1:{self.port}{place or '/'}"
        with urlopen(Request(url, headers={"Host": "books.example"})) as answer:
            content = answer.read()
            self.send_response(answer.status)
            for name in ("Content-Type", "Content-Security-Policy"):
                self.send_header(name, answer.headers[name])
            self.end_headers()
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_it_works_below_a_path_and_says_when_it_is_closed(
    page: pages.Dashboard, browser: Browser
) -> None:
    handler = type("Handler", (Proxy,), {"port": page._server.server_port})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as proxy:
        threading.Thread(target=proxy.serve_forever, args=(0.05,), daemon=True).start()
        base = f"http://127.0.0.1:{proxy.server_port}/user/me/proxy/4040"
        browser.look()
        for path in (base, f"http://127.0.0.1:{page._server.server_port}//two/slashes"):
            browser.open(path, DRAWN)
            assert browser.run("document.getElementById('metrics').href") == f"{path}/metrics"
        browser.open(base, DRAWN)
        page.close()
        browser.run("look()")
        browser.wait("document.getElementById('state').textContent.startsWith('No connection')")
        browser.open("about:blank")
        proxy.shutdown()


def test_a_real_query_is_shown_and_its_end(
    spark: SparkSession,
    people: DataFrame,
    tmp_path: Path,
    browser: Browser,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watching, "_DUTY", 1)  # each look may take long beside other tests
    feed = Feed(spark, tmp_path)
    feed.add(1, 2, 99)
    query = feed.start(bsjoin.join(feed.stream, people, "k", how="left"))
    steered = bsjoin.cycles(people, "k", sink=lambda rows, number: rows.collect())
    steered(spark.range(4).selectExpr("id AS k"), 0)
    with bsjoin.dashboard(query, steered) as made:
        made._server.watched._every_s = 0
        query.processAllAvailable()
        browser.look()
        browser.open(made.url, "document.body.innerText.includes('66.7 %')")
        text = browser.run("document.body.innerText")
        assert "cycles 2" in text
        assert "100.0 %" in text
        with urlopen(f"{made.url}metrics") as answer:
            assert "openmetrics-text" in answer.headers["Content-Type"]
            lines = answer.read().decode().splitlines()
        (rows,) = (one for one in lines if one.startswith("bsjoin_input_rows_total{") and
                   f'query="{query.id}"' in one)  # fmt: skip
        assert rows.endswith(" 3")
        feed.turn(query, 1)
        query.stop()
        browser.wait(
            "document.querySelector('#queries section p').textContent === 'ended'", seconds=30
        )
        assert browser.run("document.getElementById('state').textContent") == "1 of 2 queries run"
