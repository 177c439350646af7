"""Drawing: a seed makes a case.

The cases of a round, of which each has a seed of its own, share tables and the stream: to build a
table costs more than to join with it.
"""

from __future__ import annotations

import random
from dataclasses import replace

from tests.fuzz.case import Case
from tests.fuzz.draw.joins import chain
from tests.fuzz.draw.pools import Pools
from tests.fuzz.draw.streams import stream
from tests.fuzz.draw.tables import table
from tests.fuzz.exact import TooManyRowsError, expected

SEEDS_A_ROUND = 64
_PLAIN_ROUNDS = 1024
"""The first ones have no kinds of joins that came later: their cases find the deliberate faults."""
_BATCH_ROWS = (1, 2, 7, 49, 50, 51, 100, 10_000, 10_000)
_ZONES = ("UTC", "UTC", "America/New_York", "Asia/Kathmandu")


def case_of(seed: int) -> Case:
    """The case of a seed."""
    return draw_round(seed // SEEDS_A_ROUND, seed % SEEDS_A_ROUND + 1)[seed]


def draw_round(number: int, most: int = SEEDS_A_ROUND) -> dict[int, Case]:
    """The cases of the seeds from ``number * SEEDS_A_ROUND`` on, so many at most."""
    draw = random.Random(number)
    streaming = draw.random() < 0.15
    pools = Pools(draw, plain=number < _PLAIN_ROUNDS)
    tables = tuple(
        table(pools, first=not n, refreshed=streaming) for n in range(draw.choice([2, 3, 3]))
    )
    # At least two micro-batches, so that something is between.
    rows = stream(pools, tables, least=12 if streaming else 0)
    cuts, events = _schedule(draw, len(rows.rows)) if streaming else ((), ())
    shared = Case(
        tables=tables,
        stream=rows,
        joins=(),
        cuts=cuts,
        batch_rows=draw.choice(_BATCH_ROWS),
        zone=draw.choice(_ZONES),
        parts=draw.choice([1, 1, 2]),
        generated=draw.random() < 0.2,  # which costs more than the rest of a small query
    )
    cases: dict[int, Case] = {}
    wanted = 12 if streaming else 40
    privates = 0
    for _ in range(3 * wanted):
        if len(cases) == min(wanted, most):
            break
        joins = chain(pools, shared)
        if joins is None:
            continue
        private = any(tables[join.table].cache == "private" for join in joins)
        if private and (privates == 4 or streaming):  # each costs a build
            continue
        here = events
        if not streaming:  # the later half comes after a refresh
            here = ((0, "refresh"),) if len(cases) >= wanted // 2 else ()
        case = _small(replace(shared, joins=joins, events=here))
        if case is not None:
            privates += private
            cases[number * SEEDS_A_ROUND + len(cases)] = case
    return cases


def _schedule(
    draw: random.Random, rows: int
) -> tuple[tuple[int, ...], tuple[tuple[int, str], ...]]:
    """Micro-batches, and what happens between them."""
    cuts, left = list[int](), rows
    for _ in range(draw.choice([1, 2, 2, 3])):
        size = min(left - 1, draw.choice([1, 2, 7, 20, 50]))
        if size:
            cuts.append(size)
            left -= size
    cuts.append(left)
    events = [
        (number, event)
        for number in range(1, len(cuts))
        for event, share in (("refresh", 0.7), ("restart", 0.15), ("replay", 0.3))
        if draw.random() < share
    ]
    return tuple(cuts), tuple(events)


def _small(case: Case) -> Case | None:
    """The case with as many of its joins as have a small result."""
    while case.joins:
        try:
            expected(case)
        except TooManyRowsError:
            case = replace(case, joins=case.joins[:-1])
        else:
            return case
    return None
