"""Random queries around joins with stored tables.

A query is text in which tables are named in braces. Every query has the columns ``c0``, ``c1``, …
Its rows do not depend on how Spark carries it out: limits follow an order by all columns, as text,
which tells -0.0 from 0.0.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass

from tests.fuzz.plans.expressions import KINDS, TYPES, Column, Expressions, Scope
from tests.fuzz.plans.tables import STORED, STREAMS, TABLES, VIEWS, Source

__all__ = ["Queries"]

_COMPARABLE = {
    "long": ("long", "long", "int"), "int": ("int", "int", "int", "long"), "text": ("text",),
    "date": ("date", "date", "timestamp"), "double": ("double", "double", "int"),
    "decimal": ("decimal", "decimal", "int"), "timestamp": ("timestamp", "date"),
}  # fmt: skip
"""By the kind of a key the kinds that it is compared with."""
_KINDS_OF_JOIN = (
    ("JOIN",) * 5
    + ("LEFT JOIN",) * 5
    + ("LEFT SEMI JOIN", "LEFT ANTI JOIN") * 2
    + (
        "RIGHT JOIN",
        "FULL JOIN",
    )
)
_LARGEST = {"long": "max", "int": "max", "text": "min", "date": "min", "timestamp": "max"}
_WEIGHTS = {"people": 5, "items": 4, "slots": 3, "spans": 3, "grades": 2, "costs": 2, "vip": 2}


@dataclass(frozen=True)
class Relation:
    """A relation of a FROM clause: its text with its alias, its columns, and its keys."""

    text: str
    scope: Scope
    keys: Scope = ()


class Queries:
    """Draws queries.

    Args:
        draw: random numbers.
    """

    def __init__(self, draw: random.Random):
        self.draw = draw
        self.features: set[str] = set()
        self.make = Expressions(draw, self.features)
        self.numbers = itertools.count()
        self.tables: list[tuple[str, str, Sequence[str]]] = []

    def whole(self) -> str:
        """A query with its common table expressions."""
        for _ in range(self.draw.choices([0, 1, 2], [6, 3, 1])[0]):
            kinds = self._kinds()
            name = f"w{next(self.numbers)}"
            self.tables.append((name, self.query(1, kinds), kinds))
            self.features.add("common table expression")
        query = self.query(2, self._kinds())
        if not self.tables:
            return query
        return f"WITH {', '.join(f'{n} AS ({text})' for n, text, _ in self.tables)} {query}"

    def query(self, depth: int, kinds: Sequence[str]) -> str:
        """A query whose columns have these kinds."""
        draw = self.draw
        if depth > 1 and draw.random() < 0.15:
            between = draw.choice(["UNION ALL", "UNION ALL", "UNION", "INTERSECT", "EXCEPT"])
            self.features.add(between.lower())
            return f"({self.select(1, kinds)}) {between} ({self.select(1, kinds)})"
        text = self.select(depth, kinds)
        if draw.random() < 0.1:
            self.features.add("limit")
            by = ", ".join(f"CAST(c{i} AS STRING)" for i in range(len(kinds)))
            text = f"SELECT * FROM ({text}) ORDER BY {by} LIMIT {draw.randrange(1, 40)}"
        return text

    def select(self, depth: int, kinds: Sequence[str]) -> str:
        """One SELECT."""
        draw = self.draw
        text, scope = self._from(depth)
        if draw.random() < 0.35:
            text += f" WHERE {self._where(scope)}"
        form = draw.random()
        if form < 0.25:
            return self._grouped(text, scope, kinds)
        items = [self.make.value(kind, scope) for kind in kinds]
        if form < 0.35:
            items = self._with_window(items, kinds, scope)
        distinct = ""
        if form > 0.95:
            self.features.add("distinct")
            distinct = "DISTINCT "
        return f"SELECT {distinct}{_named(items)} FROM {text}"

    def _kinds(self) -> list[str]:
        return self.draw.choices(KINDS, k=self.draw.randrange(1, 5))

    # -- what follows the joins --------------------------------------------------------------------

    def _grouped(self, text: str, scope: Scope, kinds: Sequence[str]) -> str:
        draw = self.draw
        self.features.add("aggregate")
        items, groups = [], []
        for number, kind in enumerate(kinds, 1):
            if draw.random() < 0.4:
                items.append(self.make.value(kind, scope))
                groups.append(str(number))
            else:
                items.append(self._aggregate(kind, scope))
        by = ", ".join(groups)
        if by and draw.random() < 0.1:
            self.features.add("rollup")
            by = f"ROLLUP ({by})"
        text = f"SELECT {_named(items)} FROM {text}{f' GROUP BY {by}' if by else ''}"
        return f"{text} HAVING count(*) > {draw.randrange(3)}" if draw.random() < 0.2 else text

    def _aggregate(self, kind: str, scope: Scope) -> str:
        draw = self.draw
        if kind == "long" and draw.random() < 0.7:
            other = self.make.value(draw.choice(KINDS), scope)
            number = self.make.value("int", scope)
            return draw.choice(["count(*)", f"count(DISTINCT {other})", f"sum({number})"])
        value = self.make.value(kind, scope)
        if kind == "double":
            return f"sum({value})"
        if kind == "decimal":
            return f"CAST(sum({value}) AS {TYPES[kind]})"
        return f"{'bool_or' if kind == 'boolean' else _LARGEST[kind]}({value})"

    def _with_window(self, items: list[str], kinds: Sequence[str], scope: Scope) -> list[str]:
        """The items, one of which is a window function that depends on no order among equals."""
        places = [i for i, kind in enumerate(kinds) if kind in ("long", "int")]
        if not places:
            return items
        place, draw = self.draw.choice(places), self.draw
        self.features.add("window")
        part = self.make.value(draw.choice(KINDS), scope)
        order = self.make.value(draw.choice(KINDS), scope)
        over = f"OVER (PARTITION BY {part} ORDER BY {order})"
        number = draw.choice(["rank()", "dense_rank()", "count(*)", f"sum({items[place]})"])
        items[place] = f"CAST({number} {over} AS {TYPES[kinds[place]]})"
        return items

    # -- joins -------------------------------------------------------------------------------------

    def _from(self, depth: int) -> tuple[str, Scope]:
        draw = self.draw
        left = self._left(depth)
        if draw.random() < 0.06:  # the stored table stands on the left
            table = self._stored()
            on = self._on(table, left.scope)
            if on is not None:
                self.features.add("right join, table on the left")
                text = f"{table.text} RIGHT JOIN {left.text} ON {on}"
                left = Relation(text, (*table.scope, *left.scope))
        text, scope = left.text, left.scope
        for _ in range(draw.choices([0, 1, 2, 3], [1, 6, 3, 1])[0] if depth > 1 else 1):
            table = self._stored()
            on = self._on(table, scope)
            if on is None:  # no column suits its keys: any condition
                if depth < 2:
                    continue
                self.features.add("join by another condition")
                on = self.make.predicate((*scope, *table.scope), 1)
            join = draw.choice(_KINDS_OF_JOIN)
            self.features.add(join.lower())
            text += f" {join} {table.text} ON {on}"
            if "SEMI" not in join and "ANTI" not in join:
                scope = (*scope, *table.scope)
        return text, scope

    def _left(self, depth: int) -> Relation:
        draw = self.draw
        form = draw.random()
        if form < 0.12 and depth > 1:
            kinds, alias = self._kinds(), self._alias()
            self.features.add("subquery below")
            scope = _scope(alias, {f"c{i}": kind for i, kind in enumerate(kinds)})
            return Relation(f"({self.query(1, kinds)}) {alias}", scope)
        if form < 0.22 and self.tables:
            name, _, kinds = draw.choice(self.tables)
            alias = self._alias()
            scope = _scope(alias, {f"c{i}": kind for i, kind in enumerate(kinds)})
            return Relation(f"{name} {alias}", scope)
        if form < 0.35:
            self.features.add("table on both sides")
            return self._stored()
        return self._named(draw.choice(["visits", "visits", "acts"]))

    def _alias(self) -> str:
        return f"r{next(self.numbers)}"

    def _named(self, name: str) -> Relation:
        alias = self._alias()
        source: Source = (STREAMS | TABLES | VIEWS)[name]
        scope = _scope(alias, source.columns)
        return Relation(
            f"{{{name}}} {alias}",
            scope,
            [Column(f"{alias}.{k}", source.columns[k]) for k in source.keys],
        )

    def _stored(self) -> Relation:
        """A stored table, or a query that only selects from it; rarely one that does more."""
        draw = self.draw
        name = draw.choices(STORED, [_WEIGHTS.get(name, 1) for name in STORED])[0]
        plain, form = self._named(name), draw.random()
        if form < 0.65:
            return plain
        inner, alias = self._named(name), self._alias()
        kind = draw.choice(KINDS)
        more = self.make.value(kind, inner.scope)
        text = f"SELECT *, {more} AS z FROM {inner.text}"
        if form < 0.85:
            text += f" WHERE {self.make.predicate(inner.scope)}"
        elif form < 0.9:
            self.features.add("limit on the table's side")
            key = draw.choice(inner.keys).text
            flat = [c for c in inner.scope if c.text.startswith(f"{key.split('.')[0]}.")]
            by = ", ".join(f"CAST({c.text} AS STRING)" for c in flat)
            text += f" ORDER BY {by} LIMIT {draw.randrange(1, 30)}"
        self.features.add("selection of the table")
        scope = _scope(alias, {**(STREAMS | TABLES | VIEWS)[name].columns, "z": kind})
        keys = [Column(f"{alias}.{k.text.split('.')[1]}", k.kind) for k in inner.keys]
        return Relation(f"({text}) {alias}", scope, keys)

    def _on(self, table: Relation, scope: Scope) -> str | None:
        """The keys equal to what the other side has, and perhaps more; None if nothing suits."""
        draw = self.draw
        conjuncts = []
        for key in table.keys:
            suit = [kind for kind in _COMPARABLE[key.kind] if self.make.column(kind, scope)]
            if not suit:
                return None
            kind = draw.choice(suit)
            value = self.make.column(kind, scope)
            if draw.random() < 0.2:
                self.features.add("computed key")
                value = self.make.value(kind, scope, 1)
            equal = draw.choices(["=", "<=>"], [9, 1])[0]
            sides = [key.text, str(value)]
            draw.shuffle(sides)
            conjuncts.append(f"{sides[0]} {equal} {sides[1]}")
        if draw.random() < 0.3:
            self.features.add("residual condition")
            conjuncts.append(self.make.predicate((*scope, *table.scope), draw.randrange(3)))
        if draw.random() < 0.5:
            conjuncts += self._range(table, scope)
        if len(conjuncts) > 1 and draw.random() < 0.05:  # not all keys
            conjuncts.pop(0)
        draw.shuffle(conjuncts)
        return " AND ".join(conjuncts)

    def _range(self, table: Relation, scope: Scope) -> list[str]:
        """For a table of spans, when one lasts."""
        since = [c.text for c in table.scope if c.text.endswith(".since")]
        at = self.make.column("timestamp", scope)
        if not since or at is None:
            return []
        self.features.add("range")
        till = since[0].replace(".since", ".till")
        return [f"{at} >= {since[0]}", f"({till} IS NULL OR {at} < {till})"]

    # -- filters -----------------------------------------------------------------------------------

    def _where(self, scope: Scope) -> str:
        draw = self.draw
        test = self.make.predicate(scope, 2)
        if draw.random() < 0.5:
            asked = self._subquery(scope)
            if asked is not None:
                between = draw.choice(["AND", "OR"])
                if between == "OR":
                    self.features.add("subquery beside OR")
                return draw.choice([asked, f"({asked} {between} {test})"])
        if draw.random() < 0.05:
            self.features.add("nondeterministic")
            test = f"rand() >= 0 AND {test}"
        return test

    def _subquery(self, scope: Scope) -> str | None:
        """IN, NOT IN, EXISTS, NOT EXISTS, or a value of matching rows."""
        draw, table = self.draw, self._stored()
        form = draw.choice(["IN", "NOT IN", "EXISTS", "NOT EXISTS", "value", "any value"])
        suit = [self.make.column(draw.choice(_COMPARABLE[k.kind]), scope) for k in table.keys]
        where = f" WHERE {self.make.predicate(table.scope)}" if draw.random() < 0.5 else ""
        if form == "any value":
            self.features.add("scalar subquery")
            key = draw.choice(table.keys)
            if key.kind not in _LARGEST or key.kind == "text":
                return None
            value = self.make.value(key.kind, scope)
            return f"{value} < (SELECT max({key.text}) FROM {table.text}{where})"
        if None in suit:
            return None
        if form.endswith("IN"):
            self.features.add(form.lower())
            names = ", ".join(key.text for key in table.keys)
            values = ", ".join(map(str, suit))
            values = f"({values})" if len(suit) > 1 else values
            return f"{values} {form} (SELECT {names} FROM {table.text}{where})"
        equal = " AND ".join(f"{k.text} = {v}" for k, v in zip(table.keys, suit, strict=True))
        if form == "value":
            self.features.add("correlated scalar subquery")
            return f"(SELECT count(*) FROM {table.text} WHERE {equal}) {draw.choice('<>=')} 1"
        self.features.add(form.lower())
        more = self.make.predicate((*table.scope, *scope), 1)
        more = f" AND {more}" if draw.random() < 0.4 else ""
        return f"{form} (SELECT 1 FROM {table.text} WHERE {equal}{more})"


def _scope(alias: str, columns: dict[str, str]) -> list[Column]:
    """The columns of a relation under its alias; the text of a nested one has a place for it."""
    return [
        Column(name.format(alias) if "{}" in name else f"{alias}.{name}", kind)
        for name, kind in columns.items()
    ]


def _named(items: Sequence[str]) -> str:
    return ", ".join(f"{item} AS c{i}" for i, item in enumerate(items))
