"""Passwords appear nowhere: not in texts, not in errors, not in what a traceback prints."""

from __future__ import annotations

import logging
import pickle
import re
import traceback
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest
from servers import PASSWORD, Server

from bsjoin._secrets import hidden, scrubbed, secrets_in, secrets_of
from bsjoin.errors import ArgumentError, SourceError
from bsjoin.sources import Source, redis, sql
from bsjoin.sources.transient import TransientSourceError

WRONG = "wr0ng:/@ pass%41é"
SPELLINGS = [
    spelling
    for word in (PASSWORD, WRONG)
    for spelling in (word, quote(word), quote(word, safe=""), repr(word)[1:-1])
]
KINDS = ("postgresql", "mariadb", "redis_server")


def nowhere(text: str) -> None:
    for spelling in SPELLINGS:
        assert spelling not in text
    assert "s3cret" not in text
    assert "wr0ng" not in text


def source_of(kind: str, url: str) -> Source:
    if kind == "redis_server":
        return redis(url, key="k:{i}", schema={"i": pa.int32(), "v": pa.string()}, timeout=3)
    return sql(url, table="secret_t", connect_timeout=2, timeout=3)


def raised(work: Callable[[], Any], kinds: type[Exception] | tuple[type[Exception], ...]) -> None:
    try:
        work()
    except kinds as error:
        nowhere(str(error))
        nowhere(repr(error))
        nowhere(traceback.format_exc())
        link: BaseException | None = error
        while link is not None:  # whoever prints the whole chain
            nowhere(repr(link) + "".join(traceback.format_exception(link)))
            assert link.__cause__ is None
            link = link.__context__
        nowhere(str(pickle.loads(pickle.dumps(error))))
    else:
        pytest.fail("nothing was raised")


@pytest.fixture(params=KINDS)
def server(request: pytest.FixtureRequest) -> Server:
    return request.getfixturevalue(request.param)


@pytest.fixture
def kind(request: pytest.FixtureRequest, server: Server) -> str:
    return {"postgresql": "postgresql", "mysql": "mariadb", "redis": "redis_server"}[server.scheme]


def first_words(source: Source) -> Any:
    return source.lookup(pa.table({"i": pa.array([1], pa.int32())}))


def test_a_wrong_password_is_a_permanent_error_and_not_shown(
    server: Server, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    for text in (repr(source_of(kind, server.url)), ascii(source_of(kind, server.url))):
        nowhere(text)
        assert "***" in text
    url = server.url.replace(quote(PASSWORD, safe=""), quote(WRONG, safe=""))
    assert url != server.url
    caplog.set_level(logging.DEBUG)
    source = source_of(kind, url)
    raised(lambda: first_words(source), SourceError)
    if kind != "redis_server":
        raised(lambda: source.schema, SourceError)
        raised(source.size, SourceError)
        raised(lambda: list(source.scan()), SourceError)
        raised(lambda: source.keys_of("SELECT 1", ["i"]), SourceError)
        raised(lambda: source.is_unique(["i"]), SourceError)
    nowhere(caplog.text)
    # A host that is not there.
    source = source_of(kind, re.sub(r":\d+/", ":1/", server.url))
    if kind == "redis_server":
        raised(lambda: first_words(source), TransientSourceError)
    else:
        raised(lambda: source.schema, SourceError)


def made(url: str) -> Source:
    if url.startswith("redis"):
        return redis(url, key="{i}", schema={"i": pa.int32()})
    return sql(url, table="t")


def test_a_password_that_is_not_encoded_is_refused_unseen() -> None:
    for scheme in ("postgresql", "mysql", "redis"):
        for end in "/?#@[":
            url = f"{scheme}://me:s3cret{end}x@host:99/db"
            raised(lambda url=url: made(url), ArgumentError)
    of_a_file = f"duckdb:///file.db?token={PASSWORD}"
    raised(lambda: made(of_a_file), ArgumentError)
    assert repr(sql("sqlite:///a.db", table="s.t")) == "sql('sqlite:///a.db', table='s.t')"


def test_messages_of_drivers_are_cleaned() -> None:
    secrets = secrets_of("postgresql://me:p%40ss%20word@host/db")
    for text in (
        'invalid dsn: "password=p@ss word host=x"',
        "cannot reach postgresql://me:p%40ss%20word@host/db",
        "Access denied (p%40ss+word)",
        "pg://other:else@host",
    ):
        cleaned = scrubbed(text, secrets)
        assert "***" in cleaned
        assert "ss word" not in cleaned
        assert "p%40ss" not in cleaned
        assert "else" not in cleaned
    told = "AccountKey=s3cret==;AccountName=shop;SharedAccessSignature=sv=1&sig=wr0ng"
    known = secrets_in({"azure_connection": told})
    nowhere(scrubbed("403 for s3cret== of shop, and sv=1&sig=wr0ng", known))
    assert "shop" not in known
    # A short password does not eat the message.
    assert scrubbed("an error at a", secrets_of("mysql://me:a@host/db")) == "an error at a"
    assert hidden("mysql://me:a@host/db") == "mysql://me:***@host/db"
