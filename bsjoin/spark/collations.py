"""Texts with a collation: functions of bsjoin's jar have what Spark itself compares of them.

Spark joins such texts by bytes that are equal exactly where the texts are (``CollationKey``), and
its SQL has no name for them.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

from bsjoin.spark.session import application_of

_versions: WeakKeyDictionary[Any, dict[str, str]] = WeakKeyDictionary()


def collation_key(value: str) -> str:
    """The bytes by which a text is compared, in SQL, in a session that has the jar."""
    return f"bsjoin.collation_key({value})"


def collation_version(spark: SparkSession, collation: str) -> str:
    """The version of the rules of a collation: another one may make other bytes."""
    known = _versions.setdefault(application_of(spark), {})
    if collation not in known:
        text = f"decode(bsjoin.collation_version(collate('', '{collation}')), 'UTF-8')"
        row = spark.sql(f"SELECT {text}").first()
        assert row is not None
        known[collation] = str(row[0])
    return known[collation]
