"""What holds in a shared cache between two of its operations."""

from __future__ import annotations

import numpy as np

from bsjoin.cache import HostCache
from bsjoin.cache.content import _with_previous
from bsjoin.cache.generation import ENTRY
from bsjoin.cache.recency import live_entries


def check_cache(cache: HostCache) -> None:
    """The accounts are those of the entries, which the hash table leads to, within the bounds."""
    header, content = cache.header, cache._content
    with cache._lock.exclusive():
        view, count = content.view()
        assert not header.dirty
        assert header.slots == int((view.slots != 0).sum())
        assert max(content.over()) <= 0
        entries = view.entries(count) if count else np.zeros(0, ENTRY)
        linked = view.linked(count)
        assert len(np.unique(linked)) == len(linked)
        held = live_entries(entries)
        assert set(held.tolist()) <= set(_with_previous(entries, linked).tolist())
        assert header.live == len(held)
        assert header.small == int((entries["queue"][held] == 0).sum())
        assert header.live_rows == int(np.maximum(entries["count"][held], 1).sum())
        assert header.live_bytes == int(entries["bytes"][held].sum())
        ends = entries["first"][held] + entries["count"][held]
        assert int(ends.max(initial=0)) <= header.rows
