"""The rows that match each row of the stream, as one list of structs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from bsjoin.index import Int64s
from bsjoin.plan import JoinPlan
from bsjoin.runtimes.python.worker.chain_rows import Payload
from bsjoin.runtimes.python.worker.grouping import Groups

_TOGETHER = 1 << 18
"""So many rows of the table are in the lists that are made together, and the rest of the last."""


def collected(
    plan: JoinPlan, group: Groups, found: Iterable[tuple[Int64s, Int64s]]
) -> Iterator[tuple[Int64s, pa.Array]]:
    """The lists of the probes of a group that have a match.

    ``found`` has positions of probes, ascending, and rows of the index, those of a probe in the
    order of their list.

    Yields:
        int64[p]: positions of probes, each once; and their lists.
    """
    held: list[tuple[Int64s, Int64s]] = []
    many, enough = 0, _TOGETHER
    for piece in found:
        held.append(piece)
        many += len(piece[0])
        if many < enough:
            continue
        positions, rows = _joined(held)
        whole = int(np.searchsorted(positions, positions[-1]))  # the last may have more rows
        if whole:
            yield _lists(plan, group, positions[:whole], rows[:whole])
        held = [(positions[whole:], rows[whole:])]
        many -= whole
        enough = max(_TOGETHER, 2 * many)
    if held:
        yield _lists(plan, group, *_joined(held))


def empty_lists(plan: JoinPlan, many: int) -> pa.Array:
    """The lists of probes without a match."""
    (one,) = plan.aggregates
    offsets = pa.array(np.zeros(many + 1, np.int32))
    return pa.ListArray.from_arrays(offsets, pa.array([], one.type.value_type), type=one.type)


def _joined(pieces: list[tuple[Int64s, Int64s]]) -> tuple[Int64s, Int64s]:
    positions, rows = zip(*pieces, strict=True)
    return np.concatenate(positions), np.concatenate(rows)


def _lists(
    plan: JoinPlan, group: Groups, positions: Int64s, rows: Int64s
) -> tuple[Int64s, pa.Array]:
    (one,) = plan.aggregates
    firsts = np.flatnonzero(np.diff(positions, prepend=-1))
    columns = Payload(plan.types, [group.source], None, group.numbers(rows)).columns()
    structs = pa.StructArray.from_arrays(columns, fields=list(one.type.value_type))
    offsets = pa.array(np.append(firsts, len(positions)), pa.int32())
    return positions[firsts], pa.ListArray.from_arrays(offsets, structs, type=one.type)
