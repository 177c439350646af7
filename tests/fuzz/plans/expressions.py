"""Random values and predicates in SQL, over columns of known kinds.

None of them fails for any row, and none depends on the order of rows: there is no division, no cast
of a text, and no place in an array that may not be there.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["KINDS", "TYPES", "Column", "Expressions", "Scope"]

TYPES = {
    "long": "BIGINT", "int": "INT", "text": "STRING", "double": "DOUBLE",
    "decimal": "DECIMAL(12,2)", "date": "DATE", "timestamp": "TIMESTAMP", "boolean": "BOOLEAN",
}  # fmt: skip
KINDS = tuple(TYPES)

_TEXTS = ("c1", "c3", "c12", "n3", "N7", "s1", "", "g2", "v1")
_COMPARED = ("=", "<", "<=", ">", ">=", ">=", "<>", "<>", "<=>")


@dataclass(frozen=True)
class Column:
    """A column as it is named in the query, and its kind."""

    text: str
    kind: str


Scope = Sequence[Column]
"""The columns that an expression may name."""


class Expressions:
    """Draws expressions.

    Args:
        draw: random numbers; every expression takes the next ones.
        features: words for what was drawn are added to it.
    """

    def __init__(self, draw: random.Random, features: set[str]):
        self.draw = draw
        self.features = features

    def literal(self, kind: str) -> str:
        """A constant, which is null at times."""
        draw = self.draw
        if draw.random() < 0.04:
            return f"CAST(NULL AS {TYPES[kind]})"
        made = {
            "long": lambda: f"{draw.randrange(-2, 70)}L",
            "int": lambda: str(draw.randrange(-1, 8)),
            "text": lambda: f"'{draw.choice(_TEXTS)}'",
            "double": lambda: draw.choice(["double('NaN')", "-0.0D", "0.0D", "0.5D", "1.25D"]),
            "decimal": lambda: draw.choice(["0.5", "1.50", "2.000", "3.25"]),
            "date": lambda: f"DATE'2024-02-{draw.randrange(21, 30)}'",
            "timestamp": lambda: (
                f"TIMESTAMP'2024-02-{draw.randrange(27, 30)} 0{draw.randrange(9)}:13:20Z'"
            ),
            "boolean": lambda: draw.choice(["true", "false"]),
        }  # fmt: skip
        return made[kind]()

    def column(self, kind: str, scope: Scope) -> str | None:
        """A column of a kind, if there is one."""
        suit = [column.text for column in scope if column.kind == kind]
        return self.draw.choice(suit) if suit else None

    def value(self, kind: str, scope: Scope, depth: int = 1) -> str:
        """An expression of a kind."""
        draw, found = self.draw, self.column(kind, scope)
        if depth <= 0 or draw.random() < 0.6:
            return found if found is not None and draw.random() < 0.9 else self.literal(kind)
        one = self.value(kind, scope, depth - 1)
        if draw.random() < 0.2:
            other, test = self.value(kind, scope, depth - 1), self.predicate(scope, depth - 1)
            return f"if({test}, {one}, {other})"
        if draw.random() < 0.25:
            return f"coalesce({one}, {self.value(kind, scope, 0)})"

        def of(other: str) -> str:
            return self.value(other, scope, depth - 1)

        made = {
            "long": lambda: (f"({one} + 1)", f"(2 * {one})", f"CAST({of('int')} AS BIGINT)"),
            "int": lambda: (f"({one} + 1)", f"length({of('text')})", f"year({of('date')})"),
            "text": lambda: (
                f"upper({one})", f"concat({one}, {of('text')})", f"CAST({of('long')} AS STRING)",
                f"substring({one}, 1, 2)",
            ),
            "double": lambda: (f"({one} + 0.25D)", f"(-{one})", f"CAST({of('int')} AS DOUBLE)"),
            "decimal": lambda: (f"({one} + 1)", f"CAST({of('int')} AS DECIMAL(12,2))"),
            "date": lambda: (f"date_add({one}, 1)", f"CAST({of('timestamp')} AS DATE)"),
            "timestamp": lambda: (f"({one} + INTERVAL {draw.randrange(1, 9)} HOURS)",),
            "boolean": lambda: (f"({self.predicate(scope, depth - 1)})",),
        }  # fmt: skip
        return draw.choice(made[kind]())

    def predicate(self, scope: Scope, depth: int = 1) -> str:
        """A condition, which may be null."""
        draw = self.draw
        kind = draw.choice(scope).kind if scope else draw.choice(KINDS)
        one = self.value(kind, scope, depth - 1)
        form = draw.random()
        if depth > 0 and form < 0.3:
            return self._combined(scope, depth)
        if form < 0.42:
            column = self.column(kind, scope) or one
            return f"{column} IS {draw.choice(['', 'NOT ', 'NOT '])}NULL"
        if form < 0.5 and kind != "boolean":
            few = ", ".join(self.literal(kind) for _ in range(draw.randrange(1, 4)))
            return f"{one} {draw.choice(['', 'NOT ', 'NOT '])}IN ({few})"
        if form < 0.56 and kind != "boolean":
            return f"{one} BETWEEN {self.literal(kind)} AND {self.value(kind, scope, 0)}"
        if form < 0.6 and kind == "text":
            return f"{one} LIKE '{draw.choice(['c%', '%1', 'n%', '%'])}'"
        if kind == "boolean":
            return one
        if form < 0.63:
            return self._higher_order(kind, scope)
        return f"{one} {draw.choice(_COMPARED)} {self.value(kind, scope, depth - 1)}"

    def _combined(self, scope: Scope, depth: int) -> str:
        draw, one = self.draw, self.predicate(scope, depth - 1)
        if draw.random() < 0.2:
            return f"NOT ({one})"
        return f"({one} {draw.choice(['AND', 'OR', 'OR'])} {self.predicate(scope, depth - 1)})"

    def _higher_order(self, kind: str, scope: Scope) -> str:
        draw, one, other = self.draw, self.value(kind, scope, 0), self.value(kind, scope, 0)
        self.features.add("higher-order function")
        test = draw.choice([f"e <= {other}", "e IS NULL", f"e = {other}"])
        return draw.choice(
            [
                f"exists(array({one}, {other}), e -> {test})",
                f"size(map_filter(map('a', {one}, 'b', {other}), (q, e) -> {test})) = 1",
                f"size(filter(array({one}), e -> {test})) > 0",
            ]
        )
