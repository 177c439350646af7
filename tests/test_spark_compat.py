"""Private members of Spark: in one module of each package, and never needed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import smoke_compat
from pyspark.sql import Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from sessions import configured
from spark_samples import Feed, cycles, write_parquet

import bsjoin
from bsjoin.metrics import counted
from bsjoin.spark import compat
from bsjoin.spark.fingerprint import fingerprint, is_fixed, read_anew, renew
from bsjoin.spark.session import active_queries, any_query_active

ROOT = Path(__file__).resolve().parent.parent
ALLOWED = {"bsjoin": "bsjoin/spark/compat.py", "scheduling": "scheduling/spark/internals.py"}
PRIVATE_PACKAGES = ("py4j", "pyspark.sql.connect", "pyspark.sql.classic")
SPARKS_OWN = ("org", "PythonUtils", "PythonSQLUtils")
"""What the JVM of a session begins the names of Spark's classes with."""
NOT_SPARKS = {"cls", "os", "self", "sys"}
BELOW_SPARK = ("bsjoin/errors.py", "_cause")
"""The errors are below all that knows Spark; without the cause they read the text of an error."""
CLASSIC = [name for name, entry in compat.ENTRIES.items() if entry.side != "connect"]


def own_names(tree: ast.AST) -> set[str]:
    """The private names that a module itself defines: its functions, fields and attributes."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.AnnAssign | ast.Assign):
            targets = [node.target] if isinstance(node, ast.AnnAssign) else node.targets
            for target in targets:
                for one in target.elts if isinstance(target, ast.Tuple) else [target]:
                    if isinstance(one, ast.Name):
                        found.add(one.id)
                    elif isinstance(one, ast.Attribute) and ast.unparse(one.value) == "self":
                        found.add(one.attr)
    return {name for name in found if name.startswith("_")}


def touched(tree: ast.AST, known: set[str]) -> Iterator[str]:
    """What a module touches that is private, and not its own.

    Args:
        tree: the module.
        known: the private names that it may use.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            value = ast.unparse(node.value)
            is_unknown = is_private(node.attr) and node.attr not in known
            if (is_unknown and value not in NOT_SPARKS) or node.attr in SPARKS_OWN:
                yield f"{node.lineno}: {value}.{node.attr}"
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("getattr", "setattr"):
            name = node.args[1].value if isinstance(node.args[1], ast.Constant) else ""
            if is_private(str(name)) and name not in known:
                yield f"{node.lineno}: {ast.unparse(node)}"
        elif isinstance(node, ast.Import | ast.ImportFrom):
            module = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            for name in (module + alias.name for alias in node.names):
                parts = name.split(".")
                is_hidden = parts[0] == "pyspark" and any(map(is_private, parts))
                if name.startswith(PRIVATE_PACKAGES) or is_hidden:
                    yield f"{node.lineno}: import {name}"


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


def offences(package: str) -> list[str]:
    trees = {
        path.relative_to(ROOT).as_posix(): ast.parse(path.read_text("utf-8"))
        for path in sorted((ROOT / package).rglob("*.py"))
    }
    # A module may use what another one of the package defines, but no name that is Spark's as well.
    sparks = {name for path in ALLOWED.values() for name in _members(path)}
    shared = {name for tree in trees.values() for name in own_names(tree)} - sparks
    return [
        f"{path}:{one}"
        for path, tree in trees.items()
        if path != ALLOWED[package]
        for one in touched(
            tree, own_names(tree) | shared | {n for p, n in [BELOW_SPARK] if p == path}
        )
    ]


def _members(path: str) -> set[str]:
    """The private names of Spark that a module touches."""
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) != "self"
    }


@pytest.mark.parametrize("package", ALLOWED)
def test_one_module_touches_private_members_of_spark(package: str) -> None:
    assert offences(package) == []


@pytest.mark.parametrize(
    "code",
    [
        "df._jdf.queryExecution()",
        "spark.sparkContext._jsc",
        "getattr(query, '_session', None)",
        "from py4j.protocol import Py4JError",
        "def f():\n    from pyspark.sql.connect.proto import Join",
        "from pyspark.sql.classic.column import _to_seq",
        "from pyspark.util import _print_missing_jar",
        "view.org.apache.spark.sql.Observation",
    ],
)
def test_a_private_member_is_seen(code: str) -> None:
    assert list(touched(ast.parse(code), set()))


def test_what_is_our_own_or_public_is_none() -> None:
    code = "class A:\n    def f(self):\n        self._x = other._x\n    def _g(self): a._g()\n"
    code += "from pyspark import __version__\nsys._getframe(1)\nA.__dict__\ndf.sparkSession"
    tree = ast.parse(code)
    assert list(touched(tree, own_names(tree))) == []


def test_every_entry_says_what_it_is() -> None:
    for name, entry in compat.ENTRIES.items():
        assert entry.touches, name
        assert entry.without, name
        assert entry.side in ("classic", "connect", "both"), name
        assert entry.versions, name


def test_every_private_member_is_there(spark: SparkSession) -> None:
    smoke_compat.check(spark)


def test_a_member_that_is_missing_is_an_error_with_its_name(spark: SparkSession) -> None:
    class Other:
        sparkSession = None  # noqa: N815

    with pytest.raises(compat.MissingMemberError, match=r"analyzed: Spark has no DataFrame._jdf"):
        compat.analyzed(Other())  # type: ignore[arg-type]
    with pytest.raises(compat.MissingMemberError, match=r"SparkSession._jvm"):
        compat.catalyst(Other())  # type: ignore[arg-type]


@pytest.mark.parametrize("name", CLASSIC)
@pytest.mark.parametrize("runtime", ["jvm", "python"])
def test_without_a_member_the_rows_are_the_same(
    name: str, runtime: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compat, name, smoke_compat.missing)
    source = tmp_path / "source"
    write_parquet(source, id=pa.array([1, 2, 3], pa.int64()), v=pa.array(["a", "b", "c"]))
    with configured(spark, {"spark.bsjoin.runtime": runtime}):
        table = spark.read.parquet(str(source))
        stream = spark.range(5).withColumn("more", F.col("id") + 1).alias("s")
        once = bsjoin.join(stream, table, on="id", how="left")
        twice = bsjoin.join(once.select("id", "v"), table.withColumnRenamed("v", "w"), on="id")
        found = twice.where("id > 1").select("v", "w").collect()
        assert sorted(map(tuple, found)) == [("b", "b"), ("c", "c")]
        feed = Feed(spark, tmp_path)
        query = feed.start(bsjoin.join(feed.stream, table, {"k": "id"}, how="left"))
        feed.add(1, 7)
        query.processAllAvailable()
        rows_in = [cycle.rows_in for cycle in cycles(query)]
        query.stop()
    assert rows_in == [2]
    assert len(feed.results[0]) == 2


def test_without_members_nothing_is_known_of_a_source(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_parquet(tmp_path / "source", id=pa.array([1], pa.int64()))
    table = spark.read.parquet(str(tmp_path / "source"))
    assert fingerprint(table) is not None
    assert is_fixed(spark.range(2))
    for name in CLASSIC:
        monkeypatch.setattr(compat, name, smoke_compat.missing)
    assert not renew(table)
    assert fingerprint(table) is None
    assert not is_fixed(spark.range(2))
    assert read_anew(table) == []
    assert active_queries() == set()
    assert not any_query_active(spark)
    assert counted.counted("run", 0, 1, spark) == []


def test_metrics_that_may_never_come_are_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    observation: Any = Observation("name")
    monkeypatch.setattr(compat, "is_observed", smoke_compat.missing)
    assert compat.is_complete(observation) is None


def test_a_table_that_may_be_read_from_an_old_list_of_files_is_not_called_fresh(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_parquet(tmp_path / "source", id=pa.array([1], pa.int64()))
    df = spark.read.parquet(str(tmp_path / "source"))
    table = bsjoin.BatchTable.build(df, on="id", path=tmp_path / "table")
    confirmed: list[object] = []
    monkeypatch.setattr("bsjoin.build.storing.freshness.confirm", lambda *_: confirmed.append(_))
    table.refresh(df)
    assert len(confirmed) == 1
    for name in CLASSIC:
        monkeypatch.setattr(compat, name, smoke_compat.missing)
    table.refresh(df)
    assert len(confirmed) == 1
    assert table.version == 1
