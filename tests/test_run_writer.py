"""What the tasks of a build do with their batches: rows that match nothing go apart, all stay."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from bsjoin.build.run_writer import Split, _pieces
from bsjoin.storage import RUN, UNINDEXED_RUN

# The hash, a compared key, and what can be selected: two keys and a value.
SCHEMA = pa.schema(
    [
        ("h", pa.int64()),
        ("k0", pa.string()),
        ("a", pa.string()),
        ("b", pa.int64()),
        ("v", pa.int64()),
    ]
)
SPLIT = Split.of(["a", "b", "v"], ["a", "b"], 1)
ROW = st.tuples(st.sampled_from(["x", "y", None]), st.sampled_from([1, None]))


def batch_of(rows: list[tuple[str | None, int | None]], first: int = 0) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [{"h": i, "k0": a, "a": a, "b": b, "v": first + i} for i, (a, b) in enumerate(rows)], SCHEMA
    )


def test_rows_without_a_key_go_apart_and_a_batch_in_which_all_match_is_not_copied() -> None:
    assert Split((2, 3), range(2, 5)) == SPLIT
    rows = [("x", 1), (None, 1), ("y", None), (None, None), ("y", 1)]
    for offset in (0, 3):
        batch = batch_of([("z", 9)] * offset + rows).slice(offset)
        indexed, others = SPLIT.parts(batch)
        assert indexed.schema == SCHEMA
        assert indexed.column("v").to_pylist() == [offset, offset + 4]
        assert others.schema.names == ["h", "a", "b", "v"]
        for name in ("v", "h"):
            assert others.column(name).to_pylist() == [offset + 1, offset + 2, offset + 3]
        assert others.column("a").to_pylist() == [None, "y", None]
    batch = batch_of([("x", 1), ("y", 2)])
    indexed, others = SPLIT.parts(batch)
    assert indexed is batch
    assert others.num_rows == 0
    batch = batch_of([(None, None)])  # of a table without keys
    assert Split.of(["a", "b", "v"], [], 1).parts(batch)[0] is batch


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(ROW, max_size=20), max_size=8), st.sampled_from([1, 200, 1000, 1 << 20]))
def test_pieces_hold_every_row_once_in_order_and_are_not_too_large(
    parts: list[list[tuple[str | None, int | None]]], limit: int
) -> None:
    batches, first = [], 0
    for part in parts:
        batches.append(batch_of(part, first))
        first += len(part)
    wanted = {RUN: [], UNINDEXED_RUN: []}
    for v, (a, b) in enumerate(row for part in parts for row in part):
        wanted[UNINDEXED_RUN if a is None or b is None else RUN].append(v)
    found = {RUN: [], UNINDEXED_RUN: []}
    largest = max((batch.nbytes for batch in batches), default=0)
    for rows, ending in _pieces(iter(batches), limit, SPLIT):
        assert rows.num_rows
        assert rows.nbytes <= limit + 2 * largest
        found[ending] += rows.column("v").to_pylist()
    assert found == wanted
    together = list(_pieces(iter(batches), 1 << 20, None))
    assert [ending for _, ending in together] == [RUN] * bool(first)
