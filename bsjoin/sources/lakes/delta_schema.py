"""The schema of a table of Delta, as its log has it: columns, also inside others. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

PHYSICAL = "delta.columnMapping.physicalName"

_READ = re.compile(
    "string|long|integer|short|byte|float|double|boolean|binary|date|timestamp(_ntz)?|decimal.*"
)
_CHAR = re.compile(r"\bchar\(")


class Column(NamedTuple):
    """A column, or what is inside one.

    Args:
        name: with the names of those that it is inside of.
        type: a name, or an object if it has parts.
        metadata: of the column; none of the elements of lists, and of keys and values of maps.
    """

    name: str
    type: Any
    metadata: Mapping[str, Any]


def columns_in(kind: Any, above: str = "") -> Iterator[Column]:
    """The columns inside a type.

    >>> inside = {"type": "struct", "fields": [{"name": "a", "type": "long", "metadata": {}}]}
    >>> kind = {"type": "array", "elementType": inside}
    >>> schema = {"type": "struct", "fields": [{"name": "l", "type": kind, "metadata": {}}]}
    >>> [column.name for column in columns_in(schema)]
    ['l', 'l.element', 'l.element.a']
    """
    if isinstance(kind, str):
        return
    parts = [(field["name"], field["type"], field["metadata"]) for field in kind.get("fields", ())]
    for part in ("element", "key", "value"):
        if (inner := kind.get(f"{part}Type")) is not None:
            parts.append((part, inner, {}))
    for name, inner, metadata in parts:
        yield Column(above + name, inner, metadata)
        yield from columns_in(inner, f"{above}{name}.")


def other_to_spark(field: Mapping[str, Any]) -> str | None:
    """The type of what is another value to Spark; None where deltalake reads what Spark does.

    Spark pads some texts, and compares some otherwise. The library has no type for a variant.
    """
    types = {one.type for one in columns_in({"fields": [field]}) if isinstance(one.type, str)}
    if others := sorted(name for name in types if not _READ.fullmatch(name)):
        return " and ".join(others)
    metadata = field["metadata"]
    if "__COLLATIONS" in metadata:
        return "a text with a collation"
    declared = str(metadata.get("__CHAR_VARCHAR_TYPE_STRING", ""))
    return f"{declared}, which Spark pads" if _CHAR.search(declared) else None
