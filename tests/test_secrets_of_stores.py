"""A secret in the query of a store's URL is in no text that leaves the package."""

from __future__ import annotations

import errno
import logging
import pickle
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import fsspec
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from spark_samples import Feed

import bsjoin
from bsjoin import BatchTable, Full, HotSpot, Incremental, sources
from bsjoin._secrets import hidden, scrubbed, secrets_in, secrets_of
from bsjoin.errors import (
    BSJoinError,
    DamagedTableError,
    StoreAccessError,
    StoreError,
    StoreFullError,
    TableMismatchError,
    TableNotFoundError,
)
from bsjoin.partitioning import Rule
from bsjoin.partitioning.published import Rules
from bsjoin.plan import JoinPlan, RoutePlan, StoredTable
from bsjoin.sources.invalidation import InvalidationLog
from bsjoin.storage import StorageLocation, versions

SECRET = "s3cr3t%2Fvalue+x%3D"
QUERY = f"?version=7&sas={SECRET}"
SPELLINGS = {SECRET, unquote(SECRET), quote(unquote(SECRET)), quote(unquote(SECRET), safe="")}


def nowhere(*texts: object) -> None:
    for text in map(str, texts):
        for spelling in (*SPELLINGS, "s3cr3t"):
            assert spelling not in text, f"the secret is in: {text}"


def raised(work: Callable[[], Any], kind: type[BSJoinError]) -> BSJoinError:
    """The error that a call raises; neither it nor what a traceback prints has the secret."""
    with pytest.raises(kind) as caught:
        work()
    error = caught.value
    link: BaseException | None = error
    while link is not None:  # whoever prints the whole chain
        nowhere(link, repr(link), *traceback.format_exception(link))
        link = link.__cause__ or link.__context__
    nowhere(pickle.loads(pickle.dumps(error)))
    return error


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A URL that works, on the driver and on the workers."""
    return f"local://{tmp_path}/table{QUERY}"


NAMES = [
    "sas", "sig", "se", "sp", "sv", "password", "pwd", "secret", "token", "access_token", "api_key",
    "apikey", "api-key", "key", "account_key", "X-Amz-Signature", "X-Amz-Security-Token",
    "X-Amz-Credential", "AWSAccessKeyId", "Signature", "x-goog-signature", "auth", "jwt", "%73ig",
    "sslpassword", "ssl_key_password",
]  # fmt: skip


def test_no_secret_of_a_url_is_shown_whatever_its_name() -> None:
    for name in NAMES:
        for query in (f"?{name}={SECRET}", f"?a=1&{name}={SECRET}&b=2", f"?a=1;{name}={SECRET}"):
            for url in (f"s3://bucket/table{query}", f"simplecache::https://host/t{query}"):
                location = StorageLocation.of(url)
                assert location.url == url
                nowhere(location, repr(location))
                assert "***" in repr(location)


def test_a_secret_in_a_query_may_hold_an_at_sign() -> None:
    for shown in ("postgresql://host:5432?password=", "redis://h:6379?a=1&token=", "http://h?sig="):
        for secret in ("p@ss", "a:b@c/d"):
            url = f"{shown}{secret}"
            assert hidden(url) == scrubbed(url, ()) == f"{shown}***"
            assert secret in secrets_of(url)
    assert hidden("x://me:a&key=b@host?x=1") == "x://me:***@host?x=1"  # one in a password is none
    assert secrets_in({"connection": "Server=h;Password = abc4567"}) == ("abc4567",)


def test_secrets_are_hidden_wherever_they_stand() -> None:
    for url, secrets in (
        ("https://me:first1@host/data@2/t", ["first1"]),  # a path may have an @
        ("x://me:first1@host/a::y://you:second2@host/b", ["first1", "second2"]),
        ("ftp://me:fir/st?1@host/t?x=1", ["fir/st?1"]),  # not encoded
        ("zip://a.zip::ftp://me:fir?st1@host/t", ["fir?st1"]),
        ("zip::https://host/t?x=1::ftp://me:first1@host/t?y=2", ["first1"]),
        ("s3://bucket/t?proxy=http://me:first1@host:80&x=1", ["first1"]),
    ):
        assert {*secrets} <= {*secrets_of(url)}, url
        for secret in secrets:
            assert secret not in hidden(url) + scrubbed(f"{url}: {secret}", secrets_of(url))
    many = f"x://host/t?{'a=1;' * 5_000}token=first1"
    assert secrets_of(many) == ("first1",)
    assert hidden(many) == scrubbed(many, ()) == many.replace("first1", "***")
    for harmless in ("https://[::1]:80/t?x=a@b", "https://host/t?x=a@b", "https://host:80/t?x=a@b"):
        assert hidden(harmless) == harmless
    assert secrets_in({"uri": "host=h password=abc4567 user='me'"}) == ("abc4567",)
    assert scrubbed(
        "UID=me PWD=abc; {'token': 'abc', \"secret\":\"abc\"}, wrong password: it", ()
    ) == ("UID=me PWD=***; {'token': ***, \"secret\":***}, wrong password: it")
    assert scrubbed("Authorization=Bearer abc x", ()) == "Authorization=*** x"
    told = (
        "{'aws_secret_access_key': '%s', 'Authorization': '%s'} s3a.secret.key=%s access_key_id=me"
    )
    assert scrubbed(told % ("abc", "Bearer abc", "abc"), ()) == told.replace("'%s'", "%s") % (
        ("***",) * 3
    )
    assert scrubbed("{b'Authorization': b'Bearer abc'}", ()) == "{b'Authorization': ***}"


def test_options_sources_and_plans_show_no_secret() -> None:
    url = f"s3://bucket/table{QUERY}"
    location = StorageLocation.of(url)
    assert pickle.loads(pickle.dumps(location)) == location  # the workers need it
    plan = JoinPlan(
        label="1:k", how="semi", predicate=None, reports=False,
        table=StoredTable(location=location, epoch=1, version=1, keys=()),
        columns=(), shape="exists", row_type=pa.struct([]),
    )  # fmt: skip
    route = RoutePlan(label="1:k", location=location, rule=Rule.even(2), capacity=1, seed=0)
    one, other = (Incremental(max_rows=1, invalidation_log=f"s3://b/c?token={i}") for i in "ab")
    assert one != other
    assert repr(one) == repr(other)
    for thing in (
        plan, route, InvalidationLog(location, pa.schema([])), Full(store=url), one,
        Incremental(max_rows=1, invalidation_log=url, folder=url), HotSpot(store=url),
        BatchTable(location, may_change=False, options=Full(store=url)).path,
        sources.parquet(url), sources.sql(f"postgresql://host/db{QUERY}", table="t"),
    ):  # fmt: skip
        nowhere(thing, repr(thing), f"{thing}", ascii(thing))
        assert "***" in repr(thing)
    # What is no secret is still shown.
    url = f"abfss://data@account.dfs.core.windows.net/table?versionId=7&region=eu&sig={SECRET}"
    shown = "abfss://data@account.dfs.core.windows.net/table?versionId=7&region=eu&sig=***"
    assert str(StorageLocation.of(url)) == shown
    assert repr(StorageLocation.of(url)) == f"StorageLocation({shown!r})"
    assert repr(Full(store=url)) == (
        f"Full(store={shown!r}, refresh=None, version=None, fail_on_data_loss=False, "
        f"max_staleness=None, unique=False, latest_by=(), keep=1, fingerprint=None, "
        f"segment_bytes={1 << 30})"
    )
    assert repr(Full(store="/a b/c")) == repr(Full()).replace("store=None", "store='/a b/c'")


@pytest.mark.usefixtures("temporary", "soon_active", "without_code")
def test_a_url_with_a_secret_works_and_is_never_shown(
    spark: SparkSession,
    people: DataFrame,
    tmp_path: Path,
    url: str,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG, logger="bsjoin")
    table = BatchTable.build(people, on="k", path=url)
    nowhere(repr(table), table.path, table.stats(), table.versions())
    assert BatchTable.open(url).join(people.select("k")).count() == 10
    joined = bsjoin.join(people.select("k"), people, "k", cache=Full(store=url))
    joined.explain(True)
    assert joined.count() == 10

    feed = Feed(spark, tmp_path / "feed")
    feed.add(1, 2)
    partition = HotSpot(partitions=2, store=f"local://{tmp_path}/rules{QUERY}")
    stream = table.join(feed.stream, "k", partition=partition)
    query = stream.writeStream.format("noop").option("checkpointLocation", str(feed.checkpoint))
    running = query.start()
    running.processAllAvailable()
    table.start_refreshing(people, "1 hour")
    names = [thread.name for thread in threading.enumerate()]  # as the log calls the table
    assert any(name.startswith("bsjoin-refresh-local:") for name in names)
    nowhere(*names)
    table.stop_refreshing()
    nowhere(running.lastProgress, *map(repr, bsjoin.progress(running)))
    running.explain(True)
    running.stop()

    for path in (path for path in tmp_path.rglob("*") if path.is_file()):
        nowhere(path.read_bytes().decode("utf-8", "replace"))
    nowhere(caplog.text, *capfd.readouterr())


@pytest.mark.usefixtures("temporary")
def test_errors_show_no_secret(people: DataFrame, tmp_path: Path, url: str) -> None:
    error = raised(lambda: BatchTable.open(url), TableNotFoundError)
    assert "?version=7&sas=***" in str(error)
    table = BatchTable.build(people, on="k", path=url)
    joined = table.join(people.select("k"))
    other = people.withColumn("k", people["k"].cast("int"))
    raised(lambda: table.refresh(other), TableMismatchError)
    raised(lambda: BatchTable.build(people, on="name", path=url), TableMismatchError)
    raised(lambda: versions.load(table._location, 9), StoreError)
    (victim,) = (tmp_path / f"table{QUERY}").glob("data/*/*.index.arrow")
    victim.unlink()
    raised(table.verify, DamagedTableError)
    with pytest.raises(Exception, match="is missing") as caught:
        joined.collect()
    nowhere(*traceback.format_exception(caught.value))
    with pytest.raises(StoreError, match="neither a local path nor a URL") as refused:
        StorageLocation.of(f"s3:/bucket{QUERY}")
    nowhere(refused.value)
    (tmp_path / f"below{QUERY}").write_text("")
    for scheme in ("local", "file"):
        below = f"{scheme}://{tmp_path}/below{QUERY}/table"
        raised(lambda below=below: BatchTable.build(people, on="k", path=below), StoreAccessError)
        missing = f"{scheme}:///proc/nowhere{QUERY}"
        raised(lambda url=missing: BatchTable.build(people, on="k", path=url), StoreAccessError)


class LoudFileSystem(fsspec.AbstractFileSystem):  # type: ignore[misc]
    """A file system that tells its whole URL in every error, and in those that it comes from."""

    protocol = "loud"
    cachable = False
    error: Callable[[str], Exception] = OSError

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return path

    def _fail(self, *arguments: Any, **options: Any) -> Any:
        try:
            raise RuntimeError(f"GET {arguments} failed, signature {unquote(SECRET)}")
        except RuntimeError as error:
            raise type(self).error(f"loud://bucket/table{QUERY} says no") from error

    ls = cat_file = pipe_file = put_file = get_file = makedirs = exists = size = rm = _open = _fail


@pytest.fixture
def loud() -> str:
    fsspec.register_implementation("loud", LoudFileSystem, clobber=True)
    return f"loud://bucket/table{QUERY}"


LOUD: list[tuple[Callable[[str], Exception], type[StoreError]]] = [
    (lambda text: OSError(errno.ENOSPC, text), StoreFullError),
    (PermissionError, StoreAccessError),
    (lambda text: Exception({"url": text}), StoreError),
]


def test_no_error_of_a_file_system_shows_the_secret(
    loud: str,
    people: DataFrame,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    location = StorageLocation.of(loud)
    for error, kind in LOUD:
        monkeypatch.setattr(LoudFileSystem, "error", staticmethod(error))
        for call in (
            lambda: location.names("x"),
            lambda: location.read("x"),
            lambda: location.create("x", b""),
            lambda: location.map("x", 1, ""),
            lambda: location.size("x"),
            lambda: location.remove("x"),
            location.make,
            lambda: location.reading("x").__enter__(),
            lambda: BatchTable.open(loud),
            lambda: BatchTable.build(people, on="k", path=loud),
            lambda: bsjoin.join(people.select("k"), people, "k", cache=Full(store=loud)),
            lambda: Rules(location).at(1),
        ):
            assert "***" in str(raised(call, kind))
    nowhere(caplog.text)
    monkeypatch.setattr(LoudFileSystem, "error", FileNotFoundError)
    assert location.names("x") == []
    assert location.size("x") is None
    with pytest.raises(FileNotFoundError) as caught:
        location.read("x")
    nowhere(*traceback.format_exception(caught.value))
    raised(lambda: BatchTable.open(loud), TableNotFoundError)
    raised(location.make, StoreAccessError)
    unknown = f"nosuchscheme://bucket/table{QUERY}"
    assert "***" in str(raised(lambda: BatchTable.open(unknown), StoreError))
