"""Tables that each release has written: this one joins with them, in both runtimes."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from golden_tables import GOLDEN, KINDS, build, joined, lines, unpacked
from page_checks import check_by_the_page
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from bsjoin import BatchTable
from bsjoin.errors import TableNotFoundError

Golden = tuple[Path, dict[str, list[str]]]


@pytest.fixture(scope="module", params=GOLDEN)
def golden(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Golden:
    """The tables of a release, and the rows that are expected of a join with each."""
    folder = tmp_path_factory.mktemp("golden")
    return folder, unpacked(request.param, folder)


def test_a_table_of_every_release_is_joined_as_when_it_was_written(
    spark: SparkSession, golden: Golden, runtime: str
) -> None:
    folder, expected = golden
    assert expected.keys() <= KINDS.keys()
    found = lines({name: joined(spark, folder / name, KINDS[name]) for name in expected})
    for name, rows in expected.items():
        assert found[name] == rows, name


def test_a_table_that_is_written_now_is_read_by_the_page(
    spark: SparkSession, golden: Golden, tmp_path: Path
) -> None:
    _, expected = golden
    build(spark, tmp_path, [*expected])
    for name, rows in expected.items():
        check_by_the_page(tmp_path / name, rows)


def test_a_newer_format_is_refused_by_its_number_everywhere(
    spark: SparkSession, golden: Golden, tmp_path: Path, runtime: str
) -> None:
    folder = Path(shutil.copytree(golden[0] / "direct", tmp_path / "table"))
    rows = BatchTable.open(folder).join(spark.range(9).selectExpr("int(id) AS k"), "k")
    path = folder / "versions" / "00000001.json"
    path.unlink()
    path.write_text(json.dumps({"format": 2, "written_by": "bsjoin 9.0.0", "another": "layout"}))
    named = f"the file 'versions/00000001.json' of the table in '{folder}'"
    says = "has format 2, this bsjoin reads format 1: use bsjoin 9.0.0, which wrote it, or a later"
    with pytest.raises(TableNotFoundError, match=re.escape(says)):
        BatchTable.open(folder)
    with pytest.raises((PySparkException, Py4JJavaError), match="has format 2") as caught:
        rows.collect()
    if runtime == "jvm":
        assert f"bsjoin.errors.TableNotFoundError: {named} {says}" in str(caught.value)
    with pytest.raises(PySparkException, match=re.escape(says)):
        spark.sql(f"SELECT * FROM bsjoin.`{folder}`").collect()
