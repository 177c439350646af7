"""The year of flights as a job: unique keys, the stream in order and from the beginning again."""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.flights.job import JOB


def test_the_tables_have_each_key_once(tmp_path: Path) -> None:
    folder = JOB.tables(tmp_path, 1)
    rows = {}
    for step in JOB.steps:
        table = pq.read_table(folder / step.table)
        assert table.schema.names == step.columns
        assert table.group_by(list(step.on)).aggregate([]).num_rows == table.num_rows
        rows[step.table] = table.num_rows
    assert rows == {"airlines": 16, "planes": 3_322, "airports": 1_458, "weather": 26_115}


def test_a_year_is_replayed_and_no_event_comes_twice() -> None:
    first, second = (JOB.events(1, 200_000, cycle, "year", 5).cast(JOB.arrow) for cycle in (0, 1))
    assert pc.max(first["event"]).as_py() + 1 == pc.min(second["event"]).as_py()
    again = JOB.events(1, 1, 0, "year", 5 + 336_776)
    assert again["flight"][0] == first["flight"][0]
    later = JOB.events(1, 1, 0, "year", 5 + 200_000)
    assert later["tailnum"][0] == second["tailnum"][0]
    assert first["tailnum"].null_count > 0, "rows without a key are among them"
