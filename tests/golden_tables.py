"""Small stored tables of every kind, as releases have written them.

``python -m tests.golden_tables`` writes those of this checkout to ``tests/storage/golden``, an
archive named after the version (with ``layers`` those of format 2, to another one): for each kind
the folder of the table; and ``expected.json``, the result of a join with it, computed by Spark's
own join. Run it once for a release. What is there is kept: later releases have to read it
(``bsjoin/storage/format.md``).
"""

from __future__ import annotations

import io
import json
import re
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import reduce
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

import bsjoin
from bsjoin import AsOf, Band, BatchTable, Overlaps, Within
from bsjoin.conditions import Condition
from tests.archives import unpack

FOLDER = Path(__file__).parent / "storage" / "golden"
_ENDING = ".tar.xz"
GOLDEN = sorted(path.name.removesuffix(_ENDING) for path in FOLDER.glob(f"*{_ENDING}"))
"""The versions of bsjoin whose tables are kept."""

_EXPECTED = "expected.json"
_KEPT = ("versions", "data", "marks", "fresh")
_PAYLOAD = (
    "id % 3 = 0 AS flag",
    "CAST(id AS tinyint) AS tiny",
    "CAST(id AS smallint) AS small",
    "IF(id % 4 = 1, NULL, CAST(id AS int)) AS whole",
    "id * 1000 AS long",
    "CAST(id AS float) AS single",
    "IF(id = 7, double('NaN'), id / 3) AS double",
    "CAST(id AS decimal(10,2)) AS price",
    "CAST(id * -100000000000000000 AS decimal(30,4)) AS exact",
    "IF(id % 5 = 2, NULL, concat('text ', id, ' é')) AS text",
    "CAST(concat('b', id) AS binary) AS bytes",
    "date_add(DATE'1969-12-01', CAST(id AS int)) AS day",
    "IF(id % 7 = 3, NULL, timestamp_micros(id - 5)) AS time",
    "TIMESTAMP_NTZ'1969-12-31 23:59:59.999998' + make_dt_interval(0, 0, 0, id) AS local",
    "make_dt_interval(0, int(id), 0, 0.5) AS duration",
)
_NESTED = (
    "IF(id % 4 = 1, NULL, transform(sequence(1, int(id % 3) + 1), i -> i * id)) AS list",
    "map('k', id, 'l', NULL) AS map",
    "struct(id AS x, IF(id % 3 = 0, NULL, concat('s', id)) AS label) AS struct",
)


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A table and a left join with it.

    Args:
        rows: the columns of the table by the number of the row, ``id``.
        many: how many rows.
        probes: the columns of the other side by its number, ``id``.
        asked: how many rows of it.
        on: the key columns.
        when: the condition.
        matches: the same in SQL, of ``s`` and ``t``.
        first: which of the rows that match is taken, as ORDER BY; all of them without.
        options: of ``BatchTable.build``.
        layered: whether the table is made with other rows first, to which changes are applied.
    """

    rows: Sequence[str]
    many: int = 24
    probes: Sequence[str]
    asked: int = 16
    on: Sequence[str] = ("k",)
    when: Condition | None = None
    matches: str = "true"
    first: str | None = None
    options: tuple[tuple[str, Any], ...] = ()
    layered: bool = False


def _by(key: str, **options: Any) -> Kind:
    """A table with a key of one type, three rows each, null in some."""
    value = key.replace("id", "(id DIV 3)")
    return Kind(
        rows=[f"IF(id % 8 = 7, NULL, {value}) AS k", "concat('v', id) AS v"],
        probes=[f"{key} AS k"],
        asked=10,
        **options,
    )


KINDS: dict[str, Kind] = {
    "hash": Kind(
        rows=["IF(id % 10 = 9, NULL, id DIV 3 * 1000003 - 5) AS k", *_PAYLOAD],
        probes=["id * 1000003 - 5 AS k"],
    ),
    "segments": Kind(
        rows=["id * 11 AS k", "repeat('x', 800) AS filling"],
        many=1600,
        probes=["id * 5 AS k"],
        asked=200,
        options=(("segment_bytes", 1 << 20),),
    ),
    "direct": Kind(
        rows=["IF(id % 10 = 9, NULL, int(id + id DIV 4 * 2 - 9)) AS k", "concat('v', id) AS v"],
        probes=["int(id * 2 - 12) AS k"],
    ),
    "direct_runs": Kind(
        rows=["smallint(id DIV 5) AS k", "concat('v', id) AS v"], probes=["smallint(id - 2) AS k"]
    ),
    "direct_unique": Kind(
        rows=["id - 3 AS k", "concat('v', id) AS v"],
        probes=["id * 2 - 5 AS k"],
        options=(("unique", True),),
    ),
    "text": _by("concat('ключ ', id, repeat('.', int(id) * 9))"),
    "binary": _by("unhex(concat('00FF', repeat('0A', int(id))))"),
    "boolean": _by("id % 2 = 0"),
    "double": _by("CASE id WHEN 3 THEN double('NaN') WHEN 2 THEN -0.0D ELSE (id - 2) / 2 END"),
    "decimal": _by("CAST((id - 4) * 1.25 AS decimal(12,2))"),
    "long_decimal": _by("CAST(id - 4 AS decimal(38,10)) * 123456789012345678"),
    "date": _by("date_add(DATE'1969-12-30', int(id))"),
    "timestamp": _by("timestamp_micros((id - 4) * 1000001)"),
    "several": Kind(
        rows=["timestamp_micros(id DIV 4) AS k", "IF(id = 5, NULL, concat('j', id DIV 2)) AS j",
              "CAST(id DIV 2 AS decimal(30,2)) AS l", "concat('v', id) AS v"],
        probes=["timestamp_micros(id DIV 2) AS k", "concat('j', id) AS j",
                "CAST(id AS decimal(30,2)) AS l"],
        on=("k", "j", "l"),
    ),
    "nested": Kind(
        rows=["id DIV 2 * 1000003 AS k", *_NESTED], probes=["id * 1000003 AS k"], many=12
    ),
    "points": Kind(
        rows=["id % 3 AS k", "IF(id % 8 = 7, NULL, timestamp_seconds(id * id)) AS q"],
        probes=["id % 4 AS k", "timestamp_seconds(id * 20) AS p"],
        when=Band("p", "q", timedelta(seconds=60), timedelta(microseconds=1)),
        matches="q BETWEEN p - INTERVAL 60 SECONDS AND p + INTERVAL '0.000001' SECOND",
    ),
    "points_no_key": Kind(
        rows=["CAST(id * id AS decimal(12,1)) AS q"],
        probes=["CAST(id * 9 AS decimal(12,1)) AS p"],
        on=(),
        when=Band("p", "q", 20, 3),
        matches="q BETWEEN p - 20 AND p + 3",
    ),
    "points_text": Kind(
        rows=["id % 2 AS k", "IF(id % 8 = 7, NULL, concat('the same 8 bytes ', id DIV 2)) AS q"],
        probes=["id % 3 AS k", "concat('the same 8 bytes ', id) AS p"],
        when=AsOf("p", "q"),
        matches="q <= p",
        first="q DESC, row",
    ),
    "as_of": Kind(
        rows=["id % 2 AS k", "double(id DIV 6) / 4 AS q", "id % 3 AS prio"],
        probes=["id % 3 AS k", "double(id) / 8 - 0.25 AS p"],
        when=AsOf("p", "q", order_by="prio DESC"),
        matches="q <= p",
        first="q DESC, prio DESC, row",
    ),
    "intervals": Kind(
        rows=["id % 2 AS k", "IF(id % 8 = 7, NULL, id * 3) AS q",
              "IF(id % 9 = 8, NULL, id * 3 + id % 5 * 4 - 1) AS y"],
        probes=["id % 3 AS k", "id * 5 - 4 AS p"],
        when=Within("p", "q", "y"),
        matches="q <= p AND (p < y OR y IS NULL)",
    ),
    "intervals_both": Kind(
        rows=["date_add(DATE'1970-01-01', int(id)) AS q",
              "date_add(DATE'1970-01-01', int(id + id % 4)) AS y"],
        probes=["date_add(DATE'1969-12-31', int(id * 2)) AS p",
                "date_add(DATE'1969-12-31', int(id * 2 + 1)) AS x"],
        on=(),
        when=Overlaps(("p", "x"), ("q", "y"), closed="both"),
        matches="q <= x AND p <= y",
    ),
    "intervals_decimals": Kind(
        rows=["id % 2 AS k", "CAST(id AS decimal(30,2)) * 10000000000000000 AS q",
              "CAST(id + id % 5 AS decimal(30,2)) * 10000000000000000 AS y"],
        probes=["id % 3 AS k", "CAST(id AS decimal(30,2)) * 10000000000000000 AS p"],
        when=Within("p", "q", "y", closed="right"),
        matches="q < p AND p <= y",
    ),
    "layers": Kind(
        rows=["IF(id % 10 = 9, NULL, int(id + id DIV 4 * 2 - 9)) AS k", "concat('v', id) AS v"],
        probes=["int(id * 2 - 12) AS k"],
        layered=True,
    ),
    "layers_text": _by("concat('ключ ', id, repeat('.', int(id) * 9))", layered=True),
    "layers_intervals": Kind(
        rows=["id % 5 AS k", "IF(id % 8 = 7, NULL, id * 3) AS q",
              "IF(id % 9 = 8, NULL, id * 3 + id % 5 * 4 - 1) AS y"],
        probes=["id % 6 AS k", "id * 5 - 4 AS p"],
        when=Within("p", "q", "y"),
        matches="q <= p AND (p < y OR y IS NULL)",
        layered=True,
    ),
}  # fmt: skip


def _sides(spark: SparkSession, kind: Kind) -> tuple[DataFrame, DataFrame]:
    probes = spark.range(kind.asked).selectExpr("id AS n", *kind.probes)
    return probes, spark.range(kind.many).selectExpr("id AS row", *kind.rows)


def joined(spark: SparkSession, path: Path, kind: Kind) -> DataFrame:
    """The left join with a stored table of a kind: the number of the probe, the row as a text."""
    probes, _ = _sides(spark, kind)
    return _shown(BatchTable.open(path).join(probes, list(kind.on), "left", when=kind.when))


def _by_spark(spark: SparkSession, kind: Kind) -> DataFrame:
    """The same by Spark's own join."""
    probes, rows = _sides(spark, kind)
    renamed = rows.withColumnsRenamed({name: f"t_{name}" for name in kind.on})
    equal = [f"{name} = t_{name}" for name in kind.on]
    condition = F.expr(" AND ".join([*equal, f"({kind.matches})"]))
    found = probes.join(renamed, condition, "left").drop(*(f"t_{name}" for name in kind.on))
    if kind.first is not None:
        found = found.withColumn(
            "place", F.expr(f"row_number() OVER (PARTITION BY n ORDER BY {kind.first})")
        )
        found = found.where("place = 1").drop("place")
    return _shown(found)


def _shown(rows: DataFrame) -> DataFrame:
    texts = []
    for field in rows.schema:
        column = F.col(field.name)
        if isinstance(field.dataType, T.BinaryType):
            column = F.hex(column)
        elif isinstance(field.dataType, T.ArrayType | T.MapType | T.StructType):
            column = F.to_json(column)
        texts.append(
            F.concat(F.lit(f"{field.name}="), F.coalesce(column.cast("string"), F.lit("-")))
        )
    return rows.select("n", F.concat_ws("|", *texts).alias("shown"))


def lines(results: dict[str, DataFrame]) -> dict[str, list[str]]:
    """The rows of some results as texts, sorted, from one action."""
    parts = [rows.select(F.lit(name), "shown") for name, rows in results.items()]
    found: dict[str, list[str]] = {name: [] for name in results}
    for name, line in reduce(DataFrame.union, parts).collect():
        found[name].append(line)
    return {name: sorted(rows) for name, rows in found.items()}


def build(spark: SparkSession, folder: Path, names: Sequence[str] = tuple(KINDS)) -> None:
    """Store the table of each kind in a folder of its name."""
    for name in names:
        kind = KINDS[name]
        _, rows = _sides(spark, kind)
        first = _before(spark, kind) if kind.layered else rows
        table = BatchTable.build(
            first, on=list(kind.on), when=kind.when, path=folder / name, **dict(kind.options)
        )
        if kind.layered:
            now = rows.where("row % 3 = 1").selectExpr("*", "'u' AS op")
            gone = first.where(f"row >= {kind.many}").selectExpr("*", "'d' AS op")
            table.apply(now.where("row <> 4").union(gone), key="row")
            table.apply(now.where("row = 4"))


def _before(spark: SparkSession, kind: Kind) -> DataFrame:
    """The rows of a table before its changes: some are others', and some will go."""
    _, rows = _sides(spark, kind)
    others = [re.sub(r"\bid\b", "(id + 9)", column) for column in kind.rows]
    stale = spark.range(kind.many).where("id % 3 = 1").selectExpr("id AS row", *others)
    more = spark.range(kind.many, kind.many + 5).selectExpr("id AS row", *kind.rows)
    return rows.where("row % 3 <> 1").union(stale).union(more)


def write(spark: SparkSession, to: Path, names: Sequence[str] = tuple(KINDS)) -> None:
    """Write the tables of some kinds, and what is expected of them, to an archive."""
    files: dict[str, bytes] = {}
    with tempfile.TemporaryDirectory() as folder:
        build(spark, Path(folder), names)
        for path in sorted(Path(folder).rglob("*")):
            name = path.relative_to(folder)
            if path.is_file() and name.parts[1] in _KEPT:
                files[name.as_posix()] = path.read_bytes()
    expected = lines({name: _by_spark(spark, KINDS[name]) for name in names})
    files[_EXPECTED] = json.dumps(expected, indent=0, ensure_ascii=False).encode()
    with tarfile.open(to, "w:xz") as archive:
        for place, content in files.items():
            entry = tarfile.TarInfo(place)  # without owner and time
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))


def unpacked(version: str, to: Path) -> dict[str, list[str]]:
    """Unpack the tables of a version of bsjoin; the rows that are expected, by kind."""
    with tarfile.open(FOLDER / f"{version}{_ENDING}") as archive:
        unpack(archive, to)
    return json.loads((to / _EXPECTED).read_text("utf-8"))


def main() -> int:
    """Write the archive of this version, unless it is there; with ``layers`` that of format 2."""
    from tests import sessions

    layered = "layers" in sys.argv
    to = FOLDER / f"{bsjoin.__version__}{'-layers' if layered else ''}{_ENDING}"
    if to.exists() and "--again" not in sys.argv:
        print(f"{to} is there: what a release has written stays (--again before the release)")
        return 1
    FOLDER.mkdir(exist_ok=True)
    spark = sessions.session("local[2]")
    plain = ("direct", "intervals") if layered else KINDS  # what each archive has
    write(spark, to, [name for name, kind in KINDS.items() if kind.layered or name in plain])
    spark.stop()
    print(f"{to}: {to.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
