"""Sort orders as users write them: ``"priority DESC NULLS LAST"``, as in Spark and PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from bsjoin.errors import ArgumentError

_WORDS = re.compile(
    r"(?P<column>`(?:[^`]|``)+`|.+?)(?P<direction>\s+(?:ASC|DESC))?"
    r"(?:\s+NULLS\s+(?P<nulls>FIRST|LAST))?",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True)
class SortOrder:
    """One column of a sort order.

    Args:
        column: its name.
        descending: whether the greatest value comes first.
        nulls_last: whether null comes after all values.
    """

    column: str
    descending: bool = False
    nulls_last: bool = False

    @classmethod
    def parse(cls, text: str, *, descending: bool = False) -> SortOrder:
        """Read a column's name, ASC or DESC, NULLS FIRST or LAST; a name may be in backquotes.

        As in Spark, null is below all values unless the text says otherwise: first ascending, last
        descending.

        Raises:
            ValueError: it names no column.

        >>> print(SortOrder.parse("priority desc"), SortOrder.parse("`from desc`"), sep=", ")
        priority DESC NULLS LAST, `from desc` ASC NULLS FIRST
        """
        found = _WORDS.fullmatch(text.strip())
        if found is None:
            raise ValueError(f"{text!r} names no column")
        column = found["column"]
        if column.startswith("`"):
            column = column[1:-1].replace("``", "`")
        if found["direction"]:
            descending = found["direction"].strip().upper() == "DESC"
        nulls = (found["nulls"] or "").upper()
        return cls(column, descending, nulls == "LAST" if nulls else descending)

    def __str__(self) -> str:
        found = _WORDS.fullmatch(self.column)
        plain = found is not None and found["column"] == self.column.strip() == self.column
        column = self.column
        if not plain or "`" in column:
            column = "`" + column.replace("`", "``") + "`"
        direction = "DESC" if self.descending else "ASC"
        return f"{column} {direction} NULLS {'LAST' if self.nulls_last else 'FIRST'}"


def respelled(orders: Iterable[str], name_of: Callable[[str], str]) -> tuple[str, ...]:
    """The same orders, the columns under other names."""
    parsed = map(SortOrder.parse, orders)
    return tuple(str(replace(order, column=name_of(order.column))) for order in parsed)


def sort_orders(value: object, argument: str, *, descending: bool = False) -> tuple[str, ...]:
    """The normal forms of one or more texts.

    Raises:
        ArgumentError: it is no text that names a column, or a column is named twice.

    >>> sort_orders(["priority desc", "name"], "order_by")
    ('priority DESC NULLS LAST', 'name ASC NULLS FIRST')
    """
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, Sequence) or not all(isinstance(text, str) for text in texts):
        raise ArgumentError(
            f'{argument}={value!r}: give columns of the table as texts, such as "priority" or '
            '"priority DESC NULLS LAST"'
        )
    try:
        orders = [SortOrder.parse(text, descending=descending) for text in texts]
    except ValueError as error:
        raise ArgumentError(f"{argument}={value!r}: {error}") from None
    columns = [order.column for order in orders]
    doubled = [column for column in columns if columns.count(column) > 1]
    if doubled:
        raise ArgumentError(f"{argument}={value!r} names the column {doubled[0]!r} twice")
    return tuple(map(str, orders))
