"""``parquet``: row groups that cannot hold a key are not read, no others; files change."""

from __future__ import annotations

import datetime as dt
import math
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from source_stands import rows, typed

from bsjoin.errors import ArgumentError, SourceError
from bsjoin.sources import parquet
from bsjoin.sources.invalidation import InvalidationLog, logs_of, register
from bsjoin.sources.parquet_files import source as parquet_source
from bsjoin.sources.parquet_files.columns import Rules
from bsjoin.sources.transient import TransientSourceError
from bsjoin.storage import StorageLocation

NAN = math.nan


def written(path: Path, table: pa.Table, **options: Any) -> Any:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, row_group_size=options.pop("row_group_size", 10), **options)
    return parquet(path)


def _pairs(*keys: int) -> list[str]:
    return [repr({"k": key, "v": key}) for key in keys]


def read_by(source: Any, **columns: Any) -> tuple[list[str], int]:
    """What a look-up finds, and how many row groups it reads."""
    before = source.groups_read
    found = source.lookup(typed(source, **columns))
    return rows(found, source.schema.names), source.groups_read - before


N = 100
COLUMNS: dict[str, pa.Array] = {
    "int64": pa.array(range(N), pa.int64()),
    "int8": pa.array(range(N), pa.int8()),
    "uint64": pa.array(range(N), pa.uint64()),
    "string": pa.array([f"{n:04}é" for n in range(N)]),
    "large": pa.array([f"{n:04}é" for n in range(N)], pa.large_string()),
    "dictionary": pa.array([f"{n:04}" for n in range(N)]).dictionary_encode(),
    "long": pa.array([f"{n:04}" + "é" * 500 for n in range(N)]),
    "binary": pa.array([bytes([n, 0, 255]) for n in range(N)]),
    "double": pa.array([n - 50.5 for n in range(N)]),
    "float": pa.array([n - 50.5 for n in range(N)], pa.float32()),
    "decimal": pa.array([Decimal(n) / 4 for n in range(-50, 50)], pa.decimal128(20, 2)),
    "date": pa.array([dt.date(1969, 12, 1) + dt.timedelta(n) for n in range(N)]),
    "us": pa.array([n - 50 for n in range(N)], pa.timestamp("us")),
    "ns": pa.array([(n - 50) * 1000 + 7 for n in range(N)], pa.timestamp("ns")),
    "utc": pa.array([(n - 50) * 1000 for n in range(N)], pa.timestamp("ms", "Europe/Madrid")),
}


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.long)])
def test_only_groups_that_can_hold_a_key_are_read(tmp_path: Path, step: int) -> None:
    table = pa.table({**COLUMNS, "v": pa.array(range(N), pa.int64())})
    source = written(tmp_path / "a.parquet", table)
    whole = pa.Table.from_batches(source.scan())
    assert whole.schema.equals(source.schema)
    for name in [*COLUMNS][::step]:
        keys = whole.column(name).to_pylist()
        for chosen, groups in (([35], 1), ([5, 6, 95], 2)):
            asked = [keys[n] for n in chosen]
            found, read = read_by(source, **{name: asked})
            assert found == rows(whole.take(chosen)), name
            assert read == groups, name
    sparse = written(tmp_path / "b.parquet", pa.table({"k": [n * 10 for n in range(100)]}))
    for between, groups in (([-1, 95, 1000], 0), ([91], 0), ([89], 1)):
        assert read_by(sparse, k=between) == ([], groups)


def test_nan_is_in_no_statistics(tmp_path: Path) -> None:
    values = [1.0, 2.0, NAN, 3.0, NAN, NAN, 7.0, 8.0, None]
    source = written(
        tmp_path / "a.parquet", pa.table({"k": values, "v": range(9)}), row_group_size=3
    )
    found, read = read_by(source, k=[NAN])
    assert len(found) == 3
    assert read == 3
    assert read_by(source, k=[7.0]) == ([repr({"k": 7.0, "v": 6})], 1)
    assert len(read_by(source, k=[NAN, 1.0])[0]) == 4


@pytest.mark.parametrize("options", [{"write_statistics": False}, {"write_statistics": ["v"]}])
def test_without_statistics_everything_is_read(tmp_path: Path, options: dict[str, Any]) -> None:
    table = pa.table({"k": range(100), "v": range(100)})
    source = written(tmp_path / "a.parquet", table, **options)
    assert read_by(source, k=[5, -7]) == ([repr({"k": 5, "v": 5})], 10)


def test_types_of_the_user_do_not_prune_wrongly(tmp_path: Path) -> None:
    table = pa.table({"k": [str(n) for n in range(100)]})
    written(tmp_path / "a.parquet", table)
    source = parquet(tmp_path / "a.parquet", schema={"k": pa.int64()})
    assert source.schema == pa.schema([("k", pa.int64())])
    assert read_by(source, k=[5, 99, 100]) == ([repr({"k": 5}), repr({"k": 99})], 10)
    flags = pa.table({"k": [0, 9], "b": [0, 1]})
    written(tmp_path / "b.parquet", flags)
    source = parquet(tmp_path / "b.parquet", schema={"b": pa.bool_()})
    assert read_by(source, k=[5]) == ([], 1)
    assert source.lookup(flags.select(["k"]))["b"].to_pylist() == [False, True]


def test_times_of_the_legacy_calendar_have_no_bounds(tmp_path: Path) -> None:
    """In 1900 those of a zone go back, as it left the mean time of its place behind."""
    first, minute = -2_208_988_800_000_000, 60_000_000
    times = [first + minutes * minute for minutes in (-30, 10, 60)]
    marks = {"version": "3.5.0", "legacyDateTime": "", "timeZone": "Europe/Paris"}
    table = pa.table({"k": pa.array(times, pa.timestamp("us", "UTC"))})
    table = table.replace_schema_metadata({f"org.apache.spark.{k}": v for k, v in marks.items()})
    source = written(tmp_path / "a.parquet", table)
    for batch in source.scan():
        for place in range(len(batch)):
            assert len(source.lookup(pa.table(batch.slice(place, 1)))) == 1, place


def test_a_null_among_the_keys_costs_only_the_groups_with_nulls(tmp_path: Path) -> None:
    values = [None if n in (42, 43) else n for n in range(N)]
    source = written(tmp_path / "a.parquet", pa.table({"k": values, "v": range(N)}))
    nulls = [repr({"k": None, "v": n}) for n in (42, 43)]
    assert read_by(source, k=[None]) == (nulls, 1)
    assert read_by(source, k=[5, None, 7]) == (sorted([*nulls, *_pairs(5, 7)]), 2)
    found = sorted([nulls[0], *_pairs(41)])
    assert read_by(source, k=[None, 41, 1000], v=[42, 41, 1]) == (found, 1)
    # A file without the column has nulls alone, and a folder may stand for null.
    written(tmp_path / "b" / "p=__HIVE_DEFAULT_PARTITION__" / "1.parquet", pa.table({"v": [1]}))
    written(tmp_path / "b" / "p=2" / "2.parquet", pa.table({"v": [2], "k": [3]}))
    folder = parquet(tmp_path / "b")
    one, two = repr({"v": 1, "k": None, "p": None}), repr({"v": 2, "k": 3, "p": 2})
    for asked, found in (([None], [one]), ([2], [two]), ([2, None, 3], [one, two])):
        assert read_by(folder, p=asked) == (found, len(found))
    assert read_by(folder, k=[None, 4]) == ([one], 1)


@settings(max_examples=8, deadline=None)
@given(
    values=st.lists(st.none() | st.floats(width=32) | st.just(-0.0), min_size=1, max_size=30),
    asked=st.lists(st.floats(width=32), min_size=1, max_size=8),
    groups=st.integers(1, 8),
)
def test_pruning_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory,
    values: list[float | None],
    asked: list[float],
    groups: int,
) -> None:
    path = tmp_path_factory.mktemp("p") / "a.parquet"
    table = pa.table({"k": pa.array(values, pa.float64()), "v": range(len(values))})
    source = written(path, table, row_group_size=groups)
    wanted = [v for v in asked if v == v] + [v for v in values if v is not None and v == v][:3]
    if not wanted:
        return
    found = read_by(source, k=list(dict.fromkeys(wanted)))[0]
    assert len(found) == sum(value in wanted for value in values if value is not None)


def test_changes_are_noticed_and_footers_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path / "a.parquet", pa.table({"k": range(10), "v": ["a"] * 10}))
    source: Any = parquet(tmp_path)
    assert source.listed_every_s == 3
    assert len(read_by(source, k=[3, 13])[0]) == 1
    kept = source._session.held[1].files[0]
    written(tmp_path / "b.parquet", pa.table({"k": range(10, 20), "v": ["b"] * 10}))
    assert len(read_by(source, k=[3, 13])[0]) == 1  # not yet
    source.listed_every_s = 0
    assert len(read_by(source, k=[3, 13])[0]) == 2
    assert source._session.held[1].files[0] is kept
    written(tmp_path / "a.parquet", pa.table({"k": range(10), "v": ["z"] * 10}))
    os.utime(tmp_path / "a.parquet", (1, 1))
    assert "'z'" in read_by(source, k=[3])[0][0]
    assert source._session.held[1].files[0] is not kept
    (tmp_path / "b.parquet").unlink()
    assert len(read_by(source, k=[3, 13])[0]) == 1
    # One that goes while it is known is a fault, and then forgotten.
    written(tmp_path / "b.parquet", pa.table({"k": range(10, 20), "v": ["b"] * 10}))
    source.listed_every_s = 3
    source.close()
    assert len(read_by(source, k=[3, 13])[0]) == 2
    (tmp_path / "b.parquet").unlink()
    with pytest.raises(TransientSourceError):
        read_by(source, k=[14])
    assert len(read_by(source, k=[3])[0]) == 1


def test_a_file_that_is_replaced_is_not_read_by_the_footer_of_the_old_one(tmp_path: Path) -> None:
    """Its columns may be of the same size, and in another order."""
    path, asked = tmp_path / "a.parquet", pa.table({"k": [3]})
    columns = {"k": range(9), "v": range(50, 59)}
    options: Any = {"use_dictionary": False, "compression": "none"}
    source = written(path, pa.table(columns), **options)
    source.listed_every_s = 3600
    for read in (lambda: source.lookup(asked), lambda: [*source.scan()]):
        assert source.lookup(asked).to_pylist() == [{"k": 3, "v": 53}]
        columns = dict(reversed(columns.items()))
        changed_at = path.stat().st_mtime_ns + 1_000_000_000
        written(path, pa.table(columns), **options)
        os.utime(path, ns=(changed_at, changed_at))  # not the same, however coarse its clock
        with pytest.raises((TransientSourceError, SourceError), match="was replaced while"):
            read()


def test_a_remote_file_of_the_same_size_is_another_one() -> None:
    import fsspec

    memory = fsspec.filesystem("memory")
    try:
        for first in (0, 100):
            with memory.open("/replaced/a.parquet", "wb") as file:
                table = pa.table({"k": range(first, first + 10)})
                pq.write_table(table, file, use_dictionary=False, compression="none")
            if not first:
                sources = [
                    following(p) for p in ("memory://replaced", "memory://replaced/a.parquet")
                ]
                size = memory.size("/replaced/a.parquet")
            assert memory.size("/replaced/a.parquet") == size
            for source in sources:
                assert len(source.lookup(pa.table({"k": [first + 3]}))) == 1
    finally:
        memory.rm("/replaced", recursive=True)


def test_nothing_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no such file"):
        _ = parquet(tmp_path / "nope").schema
    with pytest.raises(SourceError, match="no Parquet file"):
        _ = parquet(tmp_path).schema
    (tmp_path / "a.parquet").write_bytes(b"no parquet file at all")
    with pytest.raises(SourceError):
        _ = parquet(tmp_path).schema
    table = pa.table({"k": pa.array([1], pa.time64("us"))})
    with pytest.raises(SourceError, match=r"'k'.*Time\("):
        _ = written(tmp_path / "b.parquet", table).schema


@pytest.mark.parametrize(
    "arguments",
    [{"path": ""}, {"path": 5}, {"path": "a", "unique": "no"}, {"path": "a", "max_keys": 0},
     {"path": "a", "schema": []}],
)  # fmt: skip
def test_arguments_are_checked(arguments: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError):
        parquet(**arguments)


def following(path: Path | str) -> Any:
    """A source that lists the files anew in every look-up."""
    source: Any = parquet(path)
    source.listed_every_s = 0
    return source


def test_values_of_other_settings_are_in_caches_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path / "at=2024-01-01 10%3A00%3A00" / "a.parquet", pa.table({"k": [1]}))
    source, tokens = parquet(tmp_path), set()
    york = (15, "America/New_York")
    for hours, zone in (york, (10, "UTC"), (10, "UTC"), york):
        rules = Rules(time_zone=zone)
        monkeypatch.setattr(parquet_source, "rules_of", lambda _, rules=rules: rules)
        assert source.schema.names == ["k", "at"]
        found = source.lookup(pa.table({"k": [1]}))["at"].to_pylist()
        assert found == [dt.datetime(2024, 1, 1, hours, tzinfo=dt.UTC)]
        tokens.add(source.token)
        log = InvalidationLog(StorageLocation.of(tmp_path), pa.schema([("k", pa.int64())]))
        register(source.token, log)
    assert len(tokens) == 2
    assert all(len(logs_of(token)) == 4 for token in tokens)  # an invalidation reaches all


def test_partitions_may_appear_and_vanish(tmp_path: Path) -> None:
    written(tmp_path / "p=1" / "a.parquet", pa.table({"k": [1], "v": ["one"]}))
    source = following(tmp_path)
    asked = pa.table({"k": [1, 2, 3, 4]})
    assert source.lookup(asked).to_pylist() == [{"k": 1, "v": "one", "p": 1}]
    written(tmp_path / "p=2" / "b.parquet", pa.table({"k": [2], "v": ["two"]}))
    written(
        tmp_path / "p=__HIVE_DEFAULT_PARTITION__" / "c.parquet", pa.table({"k": [3], "v": ["null"]})
    )
    found = {row["k"]: row["p"] for row in source.lookup(asked).to_pylist()}
    assert found == {1: 1, 2: 2, 3: None}
    by_partition = pa.table({"p": pa.array([2, 7], pa.int32())})
    assert source.lookup(by_partition, ["v"]).to_pylist() == [{"p": 2, "v": "two"}]
    # A value that the first partitions' type cannot have equals no key, and costs no other row.
    written(tmp_path / "p=x" / "d.parquet", pa.table({"k": [4], "v": ["x"]}))
    assert len(source.lookup(asked, ["v"])) == 4
    assert source.lookup(by_partition, ["v"]).to_pylist() == [{"p": 2, "v": "two"}]
    assert len(source.lookup(pa.table({"k": [1, 2, 3]}))) == 3
    with pytest.raises(SourceError, match=r"'p=x/d\.parquet'.*'p'.*int32"):
        source.lookup(asked)
    for name in ("p=1/a", "p=x/d"):
        (tmp_path / f"{name}.parquet").unlink()
    assert {row["k"] for row in source.lookup(asked).to_pylist()} == {2, 3}


def test_files_may_have_fewer_more_and_narrower_columns(tmp_path: Path) -> None:
    written(tmp_path / "a.parquet", pa.table({"K": [1], "v": ["one"], "f": [0.5]}))
    source = following(tmp_path)
    asked = pa.table({"K": [1, 2, 3]})
    assert len(source.lookup(asked)) == 1
    # The first file is another one now; the types stay.
    narrow = {"f": pa.array([0.5], pa.float32()), "k": pa.array([2], pa.int16()), "w": [7]}
    written(tmp_path / "0.parquet", pa.table(narrow))
    rows_found = source.lookup(asked).to_pylist()
    assert rows_found == [{"K": 2, "v": None, "f": 0.5}, {"K": 1, "v": "one", "f": 0.5}]
    written(tmp_path / "c.parquet", pa.table({"K": [3], "v": [7]}))
    assert len(source.lookup(asked, ["f"])) == 3
    with pytest.raises(SourceError, match=r"'v' of the file 'c\.parquet' is a INT64"):
        source.lookup(asked)
    assert len(source.lookup(pa.table({"K": [1, 2]}))) == 2


def test_a_folder_that_is_written_anew_is_a_fault_and_then_read(tmp_path: Path) -> None:
    folder = tmp_path / "table"
    written(folder / "a.parquet", pa.table({"k": [1], "v": ["old"]}))
    source = following(folder)
    asked = pa.table({"k": [1]})
    assert source.lookup(asked).num_rows == 1
    (folder / "a.parquet").unlink()
    for _ in range(2):
        with pytest.raises(TransientSourceError, match="no Parquet file"):
            source.lookup(asked)
    folder.rmdir()
    with pytest.raises(TransientSourceError, match="no such file"):
        source.lookup(asked)
    data = tmp_path / "data"
    written(data, pa.table({"k": [1], "v": ["new"]}))
    folder.mkdir()
    half = data.read_bytes()[:-9]
    (folder / "b.parquet").write_bytes(half)  # is being written
    for _ in range(2):
        with pytest.raises(TransientSourceError, match=r"'b\.parquet' is incomplete"):
            source.lookup(asked)
    (folder / "b.parquet").write_bytes(data.read_bytes())
    assert source.lookup(asked).to_pylist() == [{"k": 1, "v": "new"}]


def test_damage_that_stays_is_not_transient(tmp_path: Path) -> None:
    table = pa.table({"k": range(1000), "v": [f"text {n}" for n in range(1000)]})
    written(tmp_path / "a.parquet", table, row_group_size=1000, compression="snappy")
    data = bytearray((tmp_path / "a.parquet").read_bytes())
    data[100:2000] = bytes(1900)
    (tmp_path / "a.parquet").write_bytes(data)
    source = following(tmp_path)
    for _ in range(2):
        with pytest.raises(SourceError):
            source.lookup(pa.table({"k": [1]}))
    # The same while the file changes may be a reader's bad luck.
    listed = source._listed
    source._listed = lambda *rest: (written(tmp_path / "b.parquet", table), listed(*rest))[1]
    with pytest.raises(TransientSourceError):
        source.lookup(pa.table({"k": [1]}))


def test_names_below_the_folder_are_as_they_are(tmp_path: Path) -> None:
    """Whatever the file system: the folder's own name may look like a partition, or be hidden."""
    import fsspec

    folder = tmp_path / "_x" / ".y" / "q=1"
    written(folder / "p=a b" / "1.parquet", pa.table({"k": [1]}))
    memory = fsspec.filesystem("memory")
    memory.put(str(folder), "/_x/q=1/table", recursive=True)
    for path in (folder, f"{folder}/", f"file://{folder}", "memory://_x/q=1/table"):
        source = parquet(path)
        assert source.lookup(pa.table({"k": [1]})).to_pylist() == [{"k": 1, "p": "a b"}]
    memory.rm("/_x", recursive=True)


def test_a_key_that_a_file_cannot_hold_costs_no_other_key_its_rows(tmp_path: Path) -> None:
    """The first file's type is the wider one."""
    pq.write_table(pa.table({"k": pa.array([2**40], pa.int64())}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"k": pa.array([7, -1], pa.int32())}), tmp_path / "b.parquet")
    source = parquet(tmp_path)
    asked = pa.table({"k": pa.array([2**62, 7, 2**40, -(2**63)], pa.int64())})
    assert sorted(source.lookup(asked).column("k").to_pylist()) == [7, 2**40]
