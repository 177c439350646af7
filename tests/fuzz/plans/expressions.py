"""Random values and predicates in SQL, over columns of known kinds.

None of them fails for any row, and none depends on the order of rows: there is no division, no cast
of a text, and no place in an array that may not be there.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

TYPES = {
    "long": "BIGINT", "int": "INT", "text": "STRING", "double": "DOUBLE",
    "decimal": "DECIMAL(12,2)", "date": "DATE", "timestamp": "TIMESTAMP", "boolean": "BOOLEAN",
}  # fmt: skip
KINDS = tuple(TYPES)

_LITERALS = {
    "long": ("-2L", "0L", "3L", "17L", "42L", "69L"),
    "int": ("-1", "0", "1", "2", "4", "7"),
    "text": ("'c1'", "'c3'", "'c12'", "'n3'", "'N7'", "'s1'", "''", "'g2'"),
    "double": ("double('NaN')", "-0.0D", "0.0D", "0.5D", "1.25D"),
    "decimal": ("0.5", "1.50", "2.000", "3.25"),
    "date": ("DATE'2024-02-21'", "DATE'2024-02-26'", "DATE'2024-02-28'", "DATE'2024-02-29'"),
    "timestamp": ("TIMESTAMP'2024-02-27 05:13:20Z'", "TIMESTAMP'2024-02-29 02:13:20Z'"),
    "boolean": ("true", "false"),
}
_VALUES = {
    "long": ("({long} + 1)", "(2 * {long})", "CAST({int} AS BIGINT)"),
    "int": ("({int} + 1)", "length({text})", "year({date})"),
    "text": (
        "upper({text})", "concat({text}, {text})", "CAST({long} AS STRING)",
        "substring({text}, 1, 2)",
    ),
    "double": ("({double} + 0.25D)", "(-{double})", "CAST({int} AS DOUBLE)"),
    "decimal": ("({decimal} + 1)", "CAST({int} AS DECIMAL(12,2))"),
    "date": ("date_add({date}, 1)", "CAST({timestamp} AS DATE)"),
    "timestamp": ("({timestamp} + INTERVAL 3 HOURS)", "({timestamp} - INTERVAL 8 HOURS)"),
    "boolean": ("({test})",),
}  # fmt: skip
_OF_ANY_KIND = ("coalesce({one}, {one})", "if({test}, {one}, {one})")
_PREDICATES = (
    *(f"{{one}} {sign} {{one}}" for sign in ("=", "<", "<=", ">", ">=", "<>", "<>", "<=>")),
    "{one} IS NULL", "{one} IS NOT NULL", "{one} IS NOT NULL",
    "{one} IN ({constant}, {constant})", "{one} NOT IN ({constant}, {constant})",
    "{one} BETWEEN {constant} AND {one}",
    "({test} AND {test})", "({test} OR {test})", "({test} OR {test})", "NOT ({test})", "{boolean}",
    "{text} LIKE 'c%'", "{text} LIKE '%1'",
    "exists(array({one}, {one}), e -> e <= {one})",
    "size(map_filter(map('a', {one}, 'b', {one}), (q, e) -> e IS NULL)) = 1",
    "size(filter(array({one}), e -> e = {one})) > 0",
)  # fmt: skip


@dataclass(frozen=True)
class Column:
    """A column as it is named in the query, and its kind."""

    text: str
    kind: str


Scope = Sequence[Column]
"""The columns that an expression may name."""


class Expressions:
    """Draws expressions."""

    def __init__(self, draw: random.Random, features: set[str]):
        self.draw = draw
        self.features = features

    def literal(self, kind: str) -> str:
        """A constant, which is null at times."""
        if self.draw.random() < 0.04:
            return f"CAST(NULL AS {TYPES[kind]})"
        return self.draw.choice(_LITERALS[kind])

    def column(self, kind: str, scope: Scope) -> str | None:
        """A column of a kind, if there is one."""
        suit = [column.text for column in scope if column.kind == kind]
        return self.draw.choice(suit) if suit else None

    def value(self, kind: str, scope: Scope, depth: int = 1) -> str:
        """An expression of a kind."""
        if depth > 0 and self.draw.random() < 0.4:
            templates = _VALUES[kind] if self.draw.random() < 0.7 else _OF_ANY_KIND
            return self._filled(self.draw.choice(templates), kind, scope, depth)
        found = self.column(kind, scope)
        return found if found is not None and self.draw.random() < 0.9 else self.literal(kind)

    def predicate(self, scope: Scope, depth: int = 1) -> str:
        """A condition, which may be null."""
        kind = self.draw.choice(scope).kind if scope else self.draw.choice(KINDS)
        simple = [text for text in _PREDICATES if "{test}" not in text]
        template = self.draw.choice(_PREDICATES if depth > 0 else simple)
        if "->" in template:
            self.features.add("higher-order function")
        return self._filled(template, kind, scope, depth)

    def _filled(self, template: str, kind: str, scope: Scope, depth: int) -> str:
        """A template, in whose braces are kinds, "one" of this kind, constants and conditions."""

        def made(found: re.Match[str]) -> str:
            name = found.group(1)
            if name == "test":
                return self.predicate(scope, depth - 1)
            if name == "constant":
                return self.literal(kind)
            return self.value(kind if name == "one" else name, scope, depth - 1)

        return re.sub(r"\{(\w+)\}", made, template)
