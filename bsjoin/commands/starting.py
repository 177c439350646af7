"""The Spark session of a command. Here is no other package, so that ``doctor`` always starts."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from bsjoin._secrets import scrubbed, secrets_in, secrets_of
from bsjoin.errors import ArgumentError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def session(options: argparse.Namespace) -> SparkSession:
    """The session of this process, with the settings of ``--conf``.

    A new one of this machine logs nothing: what fails, a command says in a line.
    """
    import bsjoin.spark  # noqa: F401, I001  # says what to do where there is no Spark
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    if SparkSession.getActiveSession() is None:
        builder = builder.appName("python -m bsjoin")
        if not remote(options):
            builder = builder.config("spark.log.level", "OFF")
    for name, value in pairs(options.conf, "--conf").items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def remote(options: argparse.Namespace) -> str:
    """The URL of the Connect server that a session is for; empty for others."""
    given = dict(one.partition("=")[::2] for one in options.conf)
    url = str(given.get("spark.remote") or os.environ.get("SPARK_REMOTE", ""))
    return url if url.startswith("sc://") else ""


def pairs(texts: list[str], option: str) -> dict[str, str]:
    """The names and values of an option that may be repeated.

    Raises:
        ArgumentError: one is not NAME=VALUE.
    """
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            told = f"{option} {text!r} is not NAME=VALUE"
            raise ArgumentError(scrubbed(told, secrets_of(text)))
        found[name] = value
    return found


def secrets_in_words(words: Iterable[str]) -> tuple[str, ...]:
    """The secrets in the words of a command, the longest first: in URLs, and in NAME=VALUE.

    One with characters that URLs quote may be told in either form.

    Example:
        >>> secrets_in_words(["--conf=spark.hadoop.fs.s3a.secret.key=a=bc", "s3://b?sas=def"])
        ('a%3Dbc', 'a=bc', 'def')
    """
    found: set[str] = set()
    for word in words:
        found.update(secrets_of(word))
        parts = word.split("=")
        for at in range(1, len(parts)):
            name, value = "=".join(parts[:at]), "=".join(parts[at:])
            # Of a folder /tokens/day=1 the name is the last part; one such as key is a column.
            folder, _, last = name.rpartition("/")
            if not folder or secrets_in({f"_{last}": value}):
                found.update(secrets_in({last: value}))
    return tuple(sorted(found, key=lambda secret: (-len(secret), secret)))


def message_of(error: Exception) -> str:
    r"""What Spark, Java or the gateway to it say, in a line: without what was called.

    Example:
        >>> message_of(Exception("calling o1.x failed.\n: java.io.IOException: no"))
        'java.io.IOException: no'
    """
    first, *more = (str(error).strip() or type(error).__name__).splitlines()
    return more[0][2:] if more and more[0].startswith(": ") else first
