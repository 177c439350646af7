"""Random queries around joins with stored tables.

A query is text in which tables are named in braces. Every query has the columns ``c0``, ``c1``, …
Its rows do not depend on how Spark carries it out: limits follow an order by all columns, as text,
which tells -0.0 from 0.0.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.fuzz.plans.expressions import KINDS, TYPES, Column, Expressions, Scope
from tests.fuzz.plans.tables import STORED, STREAMS, TABLES, VIEWS

_COMPARABLE = {
    "long": ("long", "long", "int"), "int": ("int", "int", "int", "long"), "text": ("text",),
    "date": ("date", "date", "timestamp"), "double": ("double", "double", "int"),
    "decimal": ("decimal", "decimal", "int"), "timestamp": ("timestamp", "date"),
}  # fmt: skip
"""By the kind of a key the kinds that it is compared with."""
_JOINS = {"JOIN": 5, "LEFT JOIN": 5, "LEFT SEMI JOIN": 2, "LEFT ANTI JOIN": 2, "RIGHT JOIN": 1,
          "FULL JOIN": 1}  # fmt: skip
_AGGREGATES = {
    "long": ("count(*)", "count(DISTINCT {})", "max({})"), "int": ("max({})",),
    "text": ("min({})",), "date": ("min({})",), "timestamp": ("max({})",), "double": ("sum({})",),
    "decimal": ("CAST(sum({}) AS DECIMAL(12,2))",), "boolean": ("bool_or({})",),
}  # fmt: skip
_WEIGHTS = {"people": 5, "items": 4, "slots": 3, "spans": 3, "grades": 2, "costs": 2, "vip": 2}


@dataclass(frozen=True)
class Relation:
    """A relation of a FROM clause: its text with its alias, its columns, and its keys."""

    text: str
    scope: Scope
    keys: Scope = ()


class Queries:
    """Draws queries."""

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
            self.tables.append((f"w{next(self.numbers)}", self.query(1, kinds), kinds))
            self.features.add("common table expression")
        query = self.query(2, self._kinds())
        if not self.tables:
            return query
        return f"WITH {', '.join(f'{n} AS ({text})' for n, text, _ in self.tables)} {query}"

    def query(self, depth: int, kinds: Sequence[str]) -> str:
        """A query whose columns have these kinds."""
        if depth > 1 and self._is("set operation", 0.15):
            between = self.draw.choice(["UNION ALL", "UNION", "INTERSECT", "EXCEPT"])
            self.features.add(between.lower())
            return f"({self.select(1, kinds)}) {between} ({self.select(1, kinds)})"
        text = self.select(depth, kinds)
        if self._is("limit", 0.1):
            by = ", ".join(f"CAST(c{i} AS STRING)" for i in range(len(kinds)))
            text = f"SELECT * FROM ({text}) ORDER BY {by} LIMIT {self.draw.randrange(1, 40)}"
        return text

    def select(self, depth: int, kinds: Sequence[str]) -> str:
        """One SELECT."""
        text, scope = self._from(depth)
        if self._is("filter", 0.35):
            text += f" WHERE {self._where(scope)}"
        if self._is("aggregate", 0.25):
            return self._grouped(text, scope, kinds)
        items = [self.make.value(kind, scope) for kind in kinds]
        places = [i for i, kind in enumerate(kinds) if kind in ("long", "int")]
        if places and self._is("window", 0.2):  # which depends on no order among equals
            place = self.draw.choice(places)
            by = [self.make.value(self.draw.choice(KINDS), scope) for _ in range(2)]
            call = self.draw.choice(["rank()", "dense_rank()", "count(*)", f"sum({items[place]})"])
            over = f"{call} OVER (PARTITION BY {by[0]} ORDER BY {by[1]})"
            items[place] = f"CAST({over} AS {TYPES[kinds[place]]})"
        return f"SELECT {'DISTINCT ' * self._is('distinct', 0.05)}{_named(items)} FROM {text}"

    def _is(self, feature: str, chance: float) -> bool:
        """Whether the query has something, by chance."""
        drawn = self.draw.random() < chance
        self.features |= {feature} if drawn else set()
        return drawn

    def _kinds(self) -> list[str]:
        return self.draw.choices(KINDS, k=self.draw.randrange(1, 5))

    def _grouped(self, text: str, scope: Scope, kinds: Sequence[str]) -> str:
        items, groups = [], []
        for number, kind in enumerate(kinds, 1):
            item = self.make.value(kind, scope)
            if self.draw.random() < 0.4:
                groups.append(str(number))
            else:
                item = self.draw.choice(_AGGREGATES[kind]).format(item)
            items.append(item)
        by = ", ".join(groups)
        if by:
            text += f" GROUP BY {f'ROLLUP ({by})' if self._is('rollup', 0.1) else by}"
        having = f" HAVING count(*) > {self.draw.randrange(3)}" * (self.draw.random() < 0.2)
        return f"SELECT {_named(items)} FROM {text}{having}"

    # -- joins -------------------------------------------------------------------------------------

    def _from(self, depth: int) -> tuple[str, Scope]:
        draw, left = self.draw, self._left(depth)
        text, scope = left.text, left.scope
        if draw.random() < 0.06:  # the stored table stands on the left
            table = self._stored()
            on = self._on(table, scope)
            if on is not None:
                self.features.add("right join, table on the left")
                text, scope = f"{table.text} RIGHT JOIN {text} ON {on}", (*table.scope, *scope)
        for _ in range(draw.choices([0, 1, 2, 3], [1, 6, 3, 1])[0] if depth > 1 else 1):
            table = self._stored()
            on = self._on(table, scope)
            if on is None:  # no column suits its keys: any condition
                if depth < 2:
                    continue
                self.features.add("join by another condition")
                on = self.make.predicate((*scope, *table.scope), 1)
            join = draw.choices(list(_JOINS), list(_JOINS.values()))[0]
            self.features.add(join.lower())
            text += f" {join} {table.text} ON {on}"
            if "SEMI" not in join and "ANTI" not in join:
                scope = (*scope, *table.scope)
        return text, scope

    def _left(self, depth: int) -> Relation:
        if depth > 1 and self._is("subquery below", 0.12):
            kinds = self._kinds()
            return self._of_query(f"({self.query(1, kinds)})", kinds)
        if self.tables and self.draw.random() < 0.12:
            name, _, kinds = self.draw.choice(self.tables)
            return self._of_query(name, kinds)
        if self._is("table on both sides", 0.15):
            return self._stored()
        return self._of_table(self.draw.choice(["visits", "visits", "acts"]))

    def _of_query(self, text: str, kinds: Sequence[str]) -> Relation:
        alias = f"r{next(self.numbers)}"
        scope = _scope(alias, {f"c{i}": kind for i, kind in enumerate(kinds)})
        return Relation(f"{text} {alias}", scope)

    def _of_table(self, name: str, text: str = "", **more: str) -> Relation:
        """A table, or a query that selects from it and computes more columns."""
        alias, source = f"r{next(self.numbers)}", (STREAMS | TABLES | VIEWS)[name]
        keys = [Column(f"{alias}.{key}", source.columns[key]) for key in source.keys]
        scope = _scope(alias, {**source.columns, **more})
        return Relation(f"{text or f'{{{name}}}'} {alias}", scope, keys)

    def _stored(self) -> Relation:
        """A stored table, or a query that only selects from it; rarely one that does more."""
        draw = self.draw
        name = draw.choices(STORED, [_WEIGHTS.get(name, 1) for name in STORED])[0]
        if not self._is("selection of the table", 0.35):
            return self._of_table(name)
        inner, kind = self._of_table(name), draw.choice(KINDS)
        text = f"SELECT *, {self.make.value(kind, inner.scope)} AS z FROM {inner.text}"
        if draw.random() < 0.6:
            text += f" WHERE {self.make.predicate(inner.scope)}"
        elif self._is("limit on the table's side", 0.4):
            by = ", ".join(f"CAST({column.text} AS STRING)" for column in inner.scope)
            text += f" ORDER BY {by} LIMIT {draw.randrange(1, 30)}"
        return self._of_table(name, f"({text})", z=kind)

    def _on(self, table: Relation, scope: Scope) -> str | None:
        """The keys equal to what the other side has, and perhaps more; None if nothing suits."""
        draw, conjuncts = self.draw, []
        for key in table.keys:
            suit = [kind for kind in _COMPARABLE[key.kind] if self.make.column(kind, scope)]
            if not suit:
                return None
            kind = draw.choice(suit)
            is_computed = self._is("computed key", 0.2)
            value = self.make.value(kind, scope) if is_computed else self.make.column(kind, scope)
            sides = [key.text, str(value)]
            draw.shuffle(sides)
            conjuncts.append(f" {draw.choices(['=', '<=>'], [9, 1])[0]} ".join(sides))
        if self._is("residual condition", 0.3):
            conjuncts.append(self.make.predicate((*scope, *table.scope), draw.randrange(3)))
        since = [column.text for column in table.scope if column.text.endswith(".since")]
        at = self.make.column("timestamp", scope)
        if since and at is not None and self._is("range", 0.5):
            till = since[0].replace(".since", ".till")
            conjuncts += [f"{at} >= {since[0]}", f"({till} IS NULL OR {at} < {till})"]
        if len(conjuncts) > 1 and draw.random() < 0.05:  # not all keys
            conjuncts.pop(0)
        draw.shuffle(conjuncts)
        return " AND ".join(conjuncts)

    # -- filters -----------------------------------------------------------------------------------

    def _where(self, scope: Scope) -> str:
        test = self.make.predicate(scope, 2)
        asked = self._subquery(scope) if self.draw.random() < 0.5 else None
        if asked is not None:
            is_beside = self._is("subquery beside OR", 0.3)
            return f"({asked} OR {test})" if is_beside else f"{asked} AND {test}"
        return f"rand() >= 0 AND {test}" if self._is("nondeterministic", 0.1) else test

    def _subquery(self, scope: Scope) -> str | None:
        """IN, NOT IN, EXISTS, NOT EXISTS, or a value of matching rows."""
        draw, table = self.draw, self._stored()
        form = draw.choice(["IN", "NOT IN", "EXISTS", "NOT EXISTS", "value", "any value"])
        suit = [self.make.column(draw.choice(_COMPARABLE[k.kind]), scope) for k in table.keys]
        where = f" WHERE {self.make.predicate(table.scope)}" * (draw.random() < 0.5)
        key = draw.choice(table.keys)
        if form == "any value" and key.kind in ("long", "int", "date"):
            self.features.add("scalar subquery")
            value = self.make.value(key.kind, scope)
            return f"{value} < (SELECT max({key.text}) FROM {table.text}{where})"
        if form == "any value" or None in suit:
            return None
        self.features.add("correlated scalar subquery" if form == "value" else form.lower())
        if form.endswith("IN"):
            names = ", ".join(key.text for key in table.keys)
            return f"({', '.join(map(str, suit))}) {form} (SELECT {names} FROM {table.text}{where})"
        equal = " AND ".join(f"{k.text} = {v}" for k, v in zip(table.keys, suit, strict=True))
        if form == "value":
            return f"(SELECT count(*) FROM {table.text} WHERE {equal}) {draw.choice('<>=')} 1"
        more = f" AND {self.make.predicate((*table.scope, *scope))}" * (draw.random() < 0.4)
        return f"{form} (SELECT 1 FROM {table.text} WHERE {equal}{more})"


def _scope(alias: str, columns: Mapping[str, str]) -> list[Column]:
    """The columns of a relation under its alias; the text of a nested one has a place for it."""
    return [
        Column(name.format(alias) if "{}" in name else f"{alias}.{name}", kind)
        for name, kind in columns.items()
    ]


def _named(items: Sequence[str]) -> str:
    return ", ".join(f"{item} AS c{i}" for i, item in enumerate(items))
