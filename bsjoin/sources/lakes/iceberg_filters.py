"""Keys as expressions of pyiceberg, and which columns of a table these can be of."""

from __future__ import annotations

import functools
from typing import Any

from bsjoin.sources.lakes.ranges import Ranges

# The least and the greatest value of a type; of dates and times those that Python has.
_ENDS = {
    "int": (-(1 << 31), (1 << 31) - 1),
    "long": (-(1 << 63), (1 << 63) - 1),
    "date": (-719_162, 2_932_896),
    "timestamp": (-62_135_596_800_000_000, 253_402_300_799_999_999),
}


def can_compare(table: Any, name: str, ranges: Ranges) -> bool:
    """Whether pyiceberg can compare a column in all files, and in all values of partitions.

    Some files have the type that it had before: pyiceberg casts whole numbers, and fails for
    decimals of less digits. A default of files without the column, such as a date, is a text to it.
    It takes no time for one in nanoseconds. The partition of a whole number near the least one is
    not a number of its type any more, and a year that Python lacks makes none at all. It fails to
    compare a partition that is null with a range.
    """
    field = table.schema().find_field(name)
    if field.initial_default is not None or str(field.field_type).endswith("_ns"):
        return False
    by = [spec.fields_by_source_id(field.field_id) for spec in table.metadata.specs().values()]
    widths = [getattr(part.transform, "width", 0) for parts in by for part in parts]
    if widths and ranges.bounds:
        if ranges.null and any(low != high for low, high in ranges.bounds):
            return False
        if ends := _ENDS.get(str(field.field_type).removesuffix("tz")):
            first, last = ranges.bounds[0], ranges.bounds[-1]
            # Of a range it takes the partitions of the values beside it, too.
            least, most = first[0] - (first[0] < first[1]), last[1] + (last[0] < last[1])
            if least < ends[0] + max(widths) or most > ends[1]:
                return False
    for schema in table.metadata.schemas:
        before = schema.find_type(field.field_id) if field.field_id in schema.field_ids else None
        both = {str(field.field_type), str(before)}
        if before is not None and len(both) > 1 and both != {"int", "long"}:
            return False
    return True


def has_dot(table: Any, name: str) -> bool:
    """Whether a column has, or had, a name with a dot."""
    number = table.schema().find_field(name).field_id
    known = (schema.find_column_name(number) for schema in table.metadata.schemas)
    return any("." in (one or "") for one in known)


def test_of(expressions: Any, name: str, ranges: Ranges) -> Any:
    """The expression that a column is within the ranges."""
    tests = []
    for low, high in ranges.bounds:
        if low == high:
            tests.append(expressions.EqualTo(name, low))
        else:
            tests.append(
                expressions.And(
                    expressions.GreaterThanOrEqual(name, low),
                    expressions.LessThanOrEqual(name, high),
                )
            )
    if ranges.null:
        tests.append(expressions.IsNull(name))
    return functools.reduce(expressions.Or, tests)
