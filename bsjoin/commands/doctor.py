"""``doctor``: whether this machine and a Spark session have what bsjoin needs."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from bsjoin._secrets import scrubbed
from bsjoin._show import columns, in_bytes
from bsjoin._version import NEEDED, OLDEST_SPARK, __version__, is_older
from bsjoin.commands.answer import Answer
from bsjoin.commands.starting import message_of, remote, secrets_in_words, session
from bsjoin.errors import BSJoinError
from bsjoin.host import temporary_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROOM_BYTES = 1 << 30
_PACKAGES = {**NEEDED, "sortedcontainers": "2.4", "pyspark": OLDEST_SPARK, "pandas": "2.2.2"}
_JAVAS = (17, 21)
_ANSWERS_S = 10.0
"""How long a Java, or a Connect server's port, may take to answer."""
_CONNECT_PORT = 15002
_SOCKETS = "spark.python.unix.domain.socket.enabled"


class Finding(NamedTuple):
    """One line of the report.

    Args:
        state: "ok"; "note": works, with less; "fault": bsjoin cannot run.
        what: what was looked at.
        found: what was found, and what to set.
    """

    state: str
    what: str
    found: str


def add_to(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Add the command to a parser of ``argparse``."""
    told = "check Python, packages, memory, and a Spark session with its jar and workers"
    command = commands.add_parser("doctor", help=told, description=told, parents=[shared])
    command.set_defaults(run=_doctor)
    told = "a setting of the Spark session; may be repeated"
    command.add_argument("--conf", action="append", default=[], metavar="NAME=VALUE", help=told)
    told = "look at this machine only, start no Spark"
    command.add_argument("--no-session", action="store_true", help=told)


def _doctor(options: argparse.Namespace) -> Answer:
    findings = [*_machine()]
    lacks = [one.what for one in findings if one.state == "fault" and one.what in _PACKAGES]
    if lacks and not options.no_session:
        findings.append(Finding("note", "session", f"not started without {', '.join(lacks)}"))
    elif not options.no_session:
        findings.extend(_session(options))
    faults = sum(finding.state == "fault" for finding in findings)
    text = columns(findings) + f"\n\n{faults or 'no'} fault{'s' if faults != 1 else ''}"
    return Answer(text, [finding._asdict() for finding in findings], sound=not faults)


def _machine() -> Iterator[Finding]:
    yield Finding("ok", "bsjoin", f"{__version__}, {Path(__file__).parents[1]}")
    yield Finding("ok", "Python", f"{sys.version.split()[0]}, {sys.executable}")
    for package in _PACKAGES:
        yield _package(package)
    memory = Path("/dev/shm")
    if not (memory.is_dir() and os.access(memory, os.W_OK | os.X_OK)):
        lacks = "cannot be written to" if memory.is_dir() else "not there"
        said = f"{lacks}: incremental caches are in the folder for temporary files"
        yield Finding("note", str(memory), said)
    else:
        free = shutil.disk_usage(memory).free
        if free < _ROOM_BYTES:
            said = (
                f"{in_bytes(free)} free: incremental caches are in the folder for temporary files "
                "where it has less than 1 GiB; give the container more (--shm-size)"
            )
            yield Finding("note", str(memory), said)
        else:
            yield Finding("ok", str(memory), f"{in_bytes(free)} free, for incremental caches")
    try:
        temporary = tempfile.gettempdir()
    except FileNotFoundError as error:  # it has tried to write
        yield Finding("fault", "TMPDIR", f"{error.strerror}: set it to a folder to write to")
        return
    try:
        temporary_folder("doctor").remove()
    except BSJoinError as error:
        yield Finding("fault", temporary, str(error))
        return
    free = shutil.disk_usage(temporary).free
    said = f"{in_bytes(free)} free, for tables without a path"
    yield Finding("ok" if free >= _ROOM_BYTES else "note", temporary, said)


def _package(name: str) -> Finding:
    extra = "'bsjoin[spark]'" if name in ("pyspark", "pandas") else "bsjoin"
    if find_spec(name) is None:
        return Finding("fault", name, f"not installed: pip install {extra}")
    try:
        found = version(name)
    except PackageNotFoundError:  # a cluster's own, on the path
        return Finding("ok", name, "there")
    if is_older(found, least := _PACKAGES[name]):
        return Finding("fault", name, f"{found}, older than {least}: pip install {extra}")
    return Finding("ok", name, found)


def _server(url: str) -> Finding:
    """Whether somebody listens at a Connect server's address: Spark itself tries for minutes."""
    try:
        parts = urlsplit(url)
        address = parts.hostname or "", parts.port or _CONNECT_PORT
        if not address[0]:
            raise ValueError(url)
        where = f"{address[0]}:{address[1]}"
        with socket.create_connection(address, _ANSWERS_S):
            return Finding("ok", "Connect", f"somebody listens at {where}")
    except ValueError:
        return Finding("fault", "Connect", "spark.remote is no URL: give sc://host:port")
    except OSError as error:
        said = f"nobody answers at {where} ({error.strerror or error}): see spark.remote"
        return Finding("fault", "Connect", said)


def _java() -> Finding:
    """The Java that Spark starts."""
    home = os.environ.get("JAVA_HOME")
    wanted = os.path.join(home, "bin", "java") if home else "java"
    path, todo = shutil.which(wanted), "install Java 17 or 21, or set JAVA_HOME"
    if path is None:
        where = "is no program" if home else "is not on the PATH"
        return Finding("fault", "Java", f"{wanted} {where}: {todo}")
    try:
        done = subprocess.run(
            [path, "-version"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
            errors="replace", timeout=_ANSWERS_S,
        )  # fmt: skip
        told = (done.stderr + done.stdout).strip()
    except (OSError, subprocess.TimeoutExpired) as error:
        told = str(error)
    found = re.search(r'version "(\d+)', told)
    if found is None:
        first = told.splitlines()[0] if told else "nothing"
        return Finding("fault", "Java", f"{path} -version says {first[:200]!r}: {todo}")
    number = int(found[1])
    if number < min(_JAVAS):
        return Finding("fault", "Java", f'{path} is {found[0]}", and too old: {todo}')
    if number not in _JAVAS:
        return Finding("note", "Java", f"{number}, {path}: bsjoin was tried with 17 and 21")
    return Finding("ok", "Java", f"{number}, {path}")


def _session(options: argparse.Namespace) -> Iterator[Finding]:
    needed = _server(url) if (url := remote(options)) else _java()
    yield needed
    if needed.state == "fault":
        return
    what = "does not start"
    try:
        spark = session(options)
        what = "fails"
        yield from _parts(spark)
    except Exception as error:  # whatever Spark, Java or a setting says
        told = scrubbed(message_of(error), secrets_in_words(options.conf))
        todo = "see the settings, and what is printed above"
        yield Finding("fault", "session", f"{what}: {told[:300]} ({todo})")


def _parts(spark: SparkSession) -> Iterator[Finding]:
    """What a session has for joins."""
    from bsjoin.runtimes.jvm.attach import attached, lacks_planner
    from bsjoin.spark.session import too_old
    from bsjoin.spark.workers import check_workers

    against = too_old(spark.version)
    found = f"Spark {spark.version}, {spark.conf.get('spark.master', 'Connect')}"
    yield Finding("fault" if against else "ok", "session", against or found)
    if against:
        return
    refused = attached(spark)
    if refused is None:
        yield Finding("ok", "jar", "joins with a full cache run in Spark's JVM")
        lacks = lacks_planner(spark)
        said = "plain Spark joins and SQL use the index"
        yield Finding("note" if lacks else "ok", "planner", lacks or said)
    else:
        said = f"joins run in Python workers: {refused}. Set spark.jars to bsjoin.jar()"
        yield Finding("note", "jar", said)
    try:
        check_workers(spark)
        yield Finding("ok", "workers", "run bsjoin")
    except BSJoinError as error:
        yield Finding("fault", "workers", str(error))
    if spark.conf.get(_SOCKETS, None) is None:
        said = "not set: true saves some 40 ms in each micro-batch that needs Python workers"
        yield Finding("note", _SOCKETS, said)
