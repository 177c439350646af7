"""Recognising a source that has not changed, so that a stored table need not be built again.

Only what can be recognised for certain is: Parquet and ORC files, read as they are or with
plain columns and comparisons. Everything else (functions, joins, databases, text formats with
their options) has no fingerprint and is read again.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from urllib.parse import unquote, urlparse

from pyspark.sql import DataFrame

from bsjoin._spark.session import plan_text, refresh_files

__all__ = ["fingerprint", "is_fixed"]

_TREE = re.compile(r"^[\s:+\-]*")
_COLUMN = r"(?:`[^`]+`|\w+)#\d+L?"
_NODES = (
    re.compile(r"(?:Unresolved)?Relation [\w.`]*\[[^\]]*\] (?:parquet|orc)"),
    re.compile(r"SubqueryAlias [\w.`]+"),
    re.compile(rf"Project \[{_COLUMN}(?: AS {_COLUMN})?(?:, {_COLUMN}(?: AS {_COLUMN})?)*\]"),
    re.compile(r"Filter .*"),
)
_FIXED = (
    re.compile(r"Range \([^()]*(?:\([^()]*\))?\)"),
    re.compile(r"LocalRelation (?:<empty>, )?\[[^\]]*\]"),
    re.compile(r"OneRowRelation"),
    re.compile(r"SubqueryAlias [\w.`]+"),
)
_CALCULATED = re.compile(r"(?:Project \[(.*)\]|(Filter .*))")
_CALL = re.compile(r"([A-Za-z_]\w*(?=\s+\()|[^\s(,]+(?=\())")  # also `<lambda>(`
_HARMLESS = {"cast", "isnotnull", "isnull", "AND", "OR", "NOT", "IN", "Filter"}
_ATTRIBUTE = re.compile(_COLUMN)


def fingerprint(df: DataFrame) -> str | None:
    """What identifies the rows of a plain read of files; None where nothing does for certain.

    Two DataFrames with the same fingerprint read the same files (same names, sizes and times
    of change) with the same plan.
    """
    refresh_files(df)
    text = plan_text(df)
    if text is None:
        return None
    lines = [_TREE.sub("", line) for line in text.splitlines() if line.strip()]
    # Connect puts the output's names and types above the tree.
    tree = [line for line in lines if not re.match(r"[`\w]+: \w+", line)]
    if not tree or not all(map(_is_plain, tree)):
        return None
    files = _files(df)
    if not files:
        return None
    zone = df.sparkSession.conf.get("spark.sql.session.timeZone")  # casts depend on it
    plan = _without_ids(tree)
    content = json.dumps([df.schema.json(), plan, zone, files])
    return "files:" + hashlib.sha256(content.encode()).hexdigest()


def is_fixed(df: DataFrame) -> bool:
    """Whether the plan alone says what the rows are, for certain: it reads nothing.

    Ranges and rows that were given, through arithmetic, comparisons and casts. The plan does not
    show the rows that were given, so compare it by ``sameSemantics``.
    """
    text = plan_text(df)
    lines = [_TREE.sub("", line) for line in (text or "").splitlines() if line.strip()]
    return bool(lines) and all(map(_reads_nothing, lines))


def _reads_nothing(line: str) -> bool:
    if any(pattern.fullmatch(line) for pattern in _FIXED):
        return True
    node = _CALCULATED.fullmatch(line)
    if node is None or "..." in line or " more fields" in line:
        return False
    inside = node[1] or node[2] or ""
    return "[" not in inside and set(_CALL.findall(inside)) <= _HARMLESS | {"AS"}


def _without_ids(tree: list[str]) -> list[str]:
    """The plan without the numbers that Spark gives to columns, which differ in every run.

    Only what stands where a column is declared is taken for one: a text in a filter may well
    look like a numbered column.
    """
    declaring = [line for line in tree if not line.startswith("Filter")]
    declared = {found for line in declaring for found in _ATTRIBUTE.findall(line)}
    pattern = re.compile("|".join(map(re.escape, sorted(declared, key=len, reverse=True))) or "$^")
    return [pattern.sub(lambda found: found[0].partition("#")[0], line) for line in tree]


def _is_plain(line: str) -> bool:
    node = next((pattern for pattern in _NODES if pattern.fullmatch(line)), None)
    if node is None:
        return False
    if node is _NODES[0]:
        return True  # shortened or not: the files say what their columns are
    if "..." in line or " more fields" in line:
        return False
    if node is not _NODES[-1]:
        return True
    # A bracket is a subquery, which reads files of its own.
    return "[" not in line and set(_CALL.findall(line)) <= _HARMLESS


def _files(df: DataFrame) -> list[tuple[str, int, int]] | None:
    """Name, size and time of change of every input file; None where they cannot be seen."""
    found = []
    for uri in sorted(df.inputFiles()):
        parsed = urlparse(uri)
        if parsed.scheme not in ("", "file"):
            return None
        try:
            stat = Path(unquote(parsed.path)).stat()
        except OSError:
            return None
        found.append((uri, stat.st_size, stat.st_mtime_ns))
    return found
