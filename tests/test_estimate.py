"""``python -m bsjoin estimate``: each number held against a build of all rows."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from bsjoin import BatchTable
from bsjoin.commands import building, estimating, main
from bsjoin.commands.estimating import Estimate, own_bytes
from bsjoin.storage import Merge, StorageLocation, versions

pytestmark = pytest.mark.usefixtures("without_code")


def children(process: int) -> Iterator[int]:
    """All processes that one has started, and those that these have."""
    for file in Path(f"/proc/{process}/task").glob("*/children"):
        for child in map(int, file.read_text().split()):
            yield child
            yield from children(child)


def anonymous(process: int) -> int:
    """The bytes that it holds beside mapped files; 0 if it has ended."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(one.split()[1]) << 10 for one in lines if one.startswith("RssAnon")), 0)


class Watch(threading.Thread):
    """The most that each Python worker of a session holds."""

    def __init__(self, spark: SparkSession):
        super().__init__(daemon=True)
        self.java = spark._jvm.ProcessHandle.current().pid()
        self.most: dict[int, int] = {}
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.wait(0.01):
            for worker in children(self.java):
                self.most[worker] = max(self.most.get(worker, 0), anonymous(worker))


def estimate(
    capsys: pytest.CaptureFixture[str], source: Path, *words: str
) -> tuple[dict[str, Any], str]:
    """As data and as text."""
    assert main(["estimate", str(source), *words, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    return data, Estimate(**data).text


@pytest.mark.parametrize(
    ("many", "on", "words"),
    [
        (100_000, "k", ()),
        # Of more than 64 MB tasks write the segments.
        pytest.param(1_000_000, "k", (), marks=pytest.mark.long),
        pytest.param(1_000_000, "name", (), marks=pytest.mark.long),
        pytest.param(1_000_000, "g", ("--band", "k"), marks=pytest.mark.long),
    ],
)
def test_a_build_of_all_rows_needs_what_is_estimated(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch, many: int, on: str, words: tuple[str, ...],
) -> None:  # fmt: skip
    large = many == 1_000_000
    clock = [0.0]
    if not large:
        monkeypatch.setattr(estimating, "_SAMPLES", (10_000, 40_000))
        built = building._stored

        def timed(df: DataFrame, options: Any) -> BatchTable:
            # The first build of a session waits for all that starts with it.
            clock[0] += df.count() * 1e-5 if clock[0] else 5.0
            return built(df, options)

        with_time = SimpleNamespace(perf_counter=lambda: clock[0])
        monkeypatch.setattr(estimating, "time", with_time)
        monkeypatch.setattr(building, "_stored", timed)
    source, path = tmp_path / "source.parquet", tmp_path / "table"
    rows = spark.range(many).selectExpr(
        "id * 7919 AS k", "id % 1000 AS g", "concat('a name of some length ', id) AS name",
        "rand(1) AS x", "nullif(id % 5, 0) AS few",
    )  # fmt: skip
    rows.write.parquet(str(source))
    found, text = estimate(capsys, source, "--on", on, *words)
    monkeypatch.undo()

    on_disk: list[int] = []
    clean = Merge.clean

    def measured(merge: Merge, kept: set[str]) -> None:
        folder = path / merge.build.folder
        on_disk.append(sum(file.stat().st_size for file in folder.iterdir()))
        clean(merge, kept)

    monkeypatch.setattr(Merge, "clean", measured)
    watch = Watch(spark)
    if large:
        watch.start()
    try:
        assert main(["build", str(source), str(path), "--on", on, *words, "--json"]) == 0
    finally:
        watch.ended.set()
        if large:
            watch.join()

    manifest = versions.latest(StorageLocation.of(path))
    index = sum(sum(s.sizes[: 1 + manifest.compared]) for s in manifest.segments)
    real = {
        "rows": many,
        "bytes": manifest.stats.bytes,
        "mapped_bytes": sum(segment.bytes for segment in manifest.segments),
        "index_bytes": index,
        "build_bytes": on_disk[0],
    }
    for name, value in real.items():
        # The directory of an index has a power of two of places.
        most = 0.5 if name == "index_bytes" else 0.05
        assert found[name] == pytest.approx(value, rel=most), (name, found, real)
    assert 0 < found["build_s"] < math.inf
    assert large or found["build_s"] == pytest.approx(1.0)
    for told in ("on disk", "mapped by look-ups", "held by each worker", "held by each that"):
        assert told in text, text
    if not large:  # workers hold more of other tests than of this one
        return
    # All that the largest worker held, with its libraries, and room that it had from before.
    held = max(watch.most.values())
    assert held < 1.5 * found["worker_bytes"] + 1.3 * found["build_worker_bytes"], (held, found)
    assert held > found["build_worker_bytes"] / 3, (held, found)

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"held": [own_bytes(str(path))]})

    (worker,) = spark.range(0, 1, 1, 1).mapInArrow(work, "held long").collect()
    assert found["worker_bytes"] / 3 < worker.held < 3 * found["worker_bytes"], (worker, found)


def test_few_rows(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """None, and only rows that match nothing."""
    for name, rows in (("none", "range(0)"), ("three", "range(3)")):
        source = tmp_path / f"{name}.parquet"
        key = "nullif(id, id)" if name == "three" else "id"
        spark.sql(f"SELECT {key} AS k, id AS x FROM {rows}").write.parquet(str(source))
        table = BatchTable.build(spark.read.parquet(str(source)), on="k")
        found, text = estimate(capsys, source, "--on", "k")
        assert found["bytes"] == table.stats().bytes, name
        assert found["mapped_bytes"] <= found["bytes"]
        assert found["build_bytes"] >= found["bytes"]
        assert f"{found['rows']:,}; " in text
