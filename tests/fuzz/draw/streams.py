"""Drawing streams, whose rows mostly have the keys of a table's row."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from tests.fuzz.case import Columns, Row, Rows, Table
from tests.fuzz.draw.matching import no_points, places
from tests.fuzz.draw.points import in_order, near
from tests.fuzz.draw.pools import POINTS, Pools
from tests.fuzz.networks import with_ends
from tests.fuzz.values import CARRIED, KINDS, fits

NUMBER = "n"
"""The column that numbers the rows."""
WIDE = 24
"""How many columns that no join uses a few streams have."""


def stream(pools: Pools, tables: Sequence[Table], least: int) -> Rows:
    """A number, and at least one column of each family in use, two of the ranged one."""
    draw = pools.draw
    enough = Counter(pools.families)
    for table in tables if draw.random() < 0.8 else ():  # a column for each key of a table
        kinds = dict(table.columns)
        enough |= Counter(KINDS[kinds[key]].family for key in table.keys)
    families = [*enough.elements(), *draw.choices(pools.families, k=draw.randrange(3))]
    columns = [pools.column(family, "s") for family in families]
    points, texts = pools.of_networks([pools.column(pools.ranged, "p") for _ in range(2)])
    more = draw.choices([0, 1, WIDE], [0.57, 0.4, 0.03])[0]
    extra = [(pools.name("e"), draw.choice([*CARRIED, "string"])) for _ in range(more)]
    columns = [*columns, *points, *texts, *extra]
    draw.shuffle(columns)
    size = draw.choices([0, 1, 3, 12, 25, 40, 60, 103], [1, 1, 2, 5, 7, 7, 5, 3])[0]
    size = max(size, least)
    rows = pools.rows(tuple(columns), size, [n for n, _ in points], draw.choice([0, 0, 0.6]))
    numbered = tuple(
        (number, *_matching(draw, row, columns, tables)) for number, row in enumerate(rows)
    )
    columns = [(NUMBER, "long"), *columns]
    return Rows(tuple(columns), with_ends(tuple(columns), numbered))


def _matching(draw: random.Random, row: Row, columns: Columns, tables: Sequence[Table]) -> Row:
    """The row, perhaps with keys and points of rows of some tables."""
    changed = list(row)
    free = no_points(columns)
    ours = [i for i in range(len(columns)) if i not in free]
    for table in draw.sample(tables, len(tables)):
        rows = draw.choice(table.versions)
        if not rows or draw.random() < 0.3:
            continue
        names = [name for name, _ in table.columns]
        taken = dict(zip(names, draw.choice(rows), strict=True))
        used = _keyed(draw, changed, table, taken, columns, free)
        free = [i for i in free if i not in used]
        # A point is often one of that row, which is where a condition begins or ends to hold.
        theirs = table.when.table_columns if table.when and (used or not table.keys) else ()
        keys = [(names.index(key), taken[key]) for key in table.keys]
        beside = [row for row in rows if all(row[place] == key for place, key in keys)]
        for at in ours if theirs else ():
            name = draw.choice(theirs)
            if taken[name] is not None and draw.random() < 0.8:
                others = [row[names.index(name)] for row in beside]
                point = near(draw, taken[name], others, columns[at][1])
                changed[at] = point if point is not None else changed[at]
        ours = [] if theirs else ours
    ours = [i for i in range(len(columns)) if columns[i][0][0] == POINTS[0]]
    return in_order(draw, tuple(changed), columns, *ours)


def _keyed(
    draw: random.Random,
    row: list[Any],
    table: Table,
    taken: Mapping[str, Any],
    columns: Columns,
    free: Sequence[int],
) -> set[int]:
    """Give a row of the stream the keys of a table's row; which columns now have them."""
    found = places(table, columns, no_points(columns))
    if found is None or any(taken[key] is None for key in table.keys):
        return set()
    pairs = list(zip(found, table.keys, strict=True))
    if len(pairs) == 1 and draw.random() < 0.7:  # whichever a join takes
        ((at, key),) = pairs
        family = KINDS[columns[at][1]].family
        pairs = [(i, key) for i in free if KINDS[columns[i][1]].family == family]
    if not {at for at, _ in pairs} <= set(free):
        return set()
    for at, key in pairs:
        exact = KINDS[columns[at][1]].family == "exact"
        # Sometimes the number behind it, which the table may lack.
        value = Decimal(taken[key]) if exact else taken[key]
        if exact and draw.random() < 0.05:
            value += 1
        row[at] = fits(columns[at][1], value)
    return {at for at, _ in pairs}
