"""Keys that other workers load: their rows are read where they are, whatever happened meanwhile."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from bsjoin.shared import CacheLimits, Found, HostCache, State
from bsjoin.worker.batch import Batch, Tally
from bsjoin.worker.grouping import CacheRows
from bsjoin.worker.loading import Loader
from bsjoin.worker.row_refs import gathered

HASHES = np.array([7])
KEYS = [pa.array([7])]
KEY = Batch(HASHES, KEYS, None)
TICKS = np.array([1])


class View:
    """What stands for a generation of the cache."""

    def __init__(self, rows: list[str]) -> None:
        self.rows = SimpleNamespace(
            gather=lambda where, numbers=None: [pa.array(rows).take(pa.array(where))]
        )


def found(view: Any, state: State) -> Found:
    count = int(state == State.HIT)
    return Found(view, np.array([0]), np.array([state], np.int8), np.array([0]), np.array([count]))


class Replaced:
    """A cache that is compacted while a key is awaited: its third view is where the first was."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.kept: list[View] = []

    def claim(self, *_: Any) -> Found:
        if len(self.seen) < 2:
            view = View(["old"])
            self.seen.append(id(view))
            return found(view, State.WAIT)
        for _ in range(20):
            view = View(["new"])
            if id(view) == self.seen[0]:
                break
            self.kept.append(view)
        return found(view, State.HIT)


def test_a_generation_that_has_gone_is_not_taken_for_the_one_at_its_address() -> None:
    places: list[CacheRows] = []
    loader = Loader(None, Replaced(), None)  # type: ignore[arg-type]
    loaded = loader.load(KEY, TICKS, places, Tally())
    (rows,) = gathered(places, loaded.place, loaded.first)
    assert rows.to_pylist() == ["new"]


def test_claims_are_released_whatever_fails_before_the_query(tmp_path: Path) -> None:
    class Client:
        @property
        def max_keys(self) -> int:
            raise ValueError("no number")

    limits = CacheLimits(max_rows=10)
    cache = HostCache(tmp_path, [pa.int64()], [pa.string()], limits, exact=True)
    loader = Loader(None, cache, Client())  # type: ignore[arg-type]
    for _ in range(2):  # the second time, the key would be waited for
        with pytest.raises(ValueError, match="no number"):
            loader.load(KEY, TICKS, [], Tally())
