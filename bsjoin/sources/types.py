"""Arrow types that Spark supports, and conversion of columns to exactly these types."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from bsjoin.errors import ArgumentError, ColumnError, DataError, SourceError, suggest
from bsjoin.sources.rows import array_of
from bsjoin.storage.spark_schema import MAX_DIGITS
from bsjoin.values.plain import has_inside, is_any_list, plain
from bsjoin.values.python_values import reprs

# The type of a number without declared digits in Spark's JDBC source.
DECIMAL = pa.decimal128(38, 18)

_SAME = {
    pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(),
    pa.string(), pa.binary(), pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC"),
}  # fmt: skip
_WIDER = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.date64(): pa.date32(),
}


def sparkable(dtype: pa.DataType) -> pa.DataType | None:
    """The type that Spark supports for the values of an Arrow type; None if there is none.

    >>> sparkable(pa.uint32()), sparkable(pa.duration("s"))
    (DataType(int64), None)
    """
    if dtype in _SAME:
        return dtype
    if dtype in _WIDER:
        return _WIDER[dtype]
    if isinstance(dtype, pa.BaseExtensionType):
        return sparkable(dtype.storage_type)
    if pa.types.is_timestamp(dtype):
        return pa.timestamp("us", "UTC" if dtype.tz else None)
    if pa.types.is_decimal(dtype):
        return decimal_type(dtype.precision, dtype.scale)
    if pa.types.is_fixed_size_binary(dtype):
        return pa.binary()
    if pa.types.is_dictionary(dtype) or pa.types.is_run_end_encoded(dtype):
        return sparkable(dtype.value_type)
    return _nested(dtype)


def decimal_type(precision: int, scale: int) -> pa.DataType | None:
    """The type of decimals of so many digits; None where Spark has none."""
    fits = 0 < precision <= MAX_DIGITS and 0 <= scale <= precision
    return pa.decimal128(precision, scale) if fits else None


def _nested(dtype: pa.DataType) -> pa.DataType | None:
    if pa.types.is_map(dtype):
        key, item = sparkable(dtype.key_type), sparkable(dtype.item_type)
        return None if key is None or item is None else pa.map_(key, item)
    if pa.types.is_struct(dtype):
        fields = [(field.name, sparkable(field.type)) for field in dtype]
        whole = fields and all(kind is not None for _, kind in fields)
        return pa.struct([pa.field(name, kind) for name, kind in fields]) if whole else None
    if is_any_list(dtype):
        item = sparkable(dtype.value_type)
        return None if item is None else pa.list_(item)
    return None


def as_schema(schema: object) -> pa.Schema:
    """The schema of a user's argument: a ``pyarrow.Schema``, or names with Arrow types."""
    if isinstance(schema, Mapping):
        if not all(isinstance(k, str) and isinstance(t, pa.DataType) for k, t in schema.items()):
            raise ArgumentError(
                f"schema={schema!r}: give every column's name with its pyarrow type, such as "
                '{"id": pyarrow.int64()}'
            )
        schema = pa.schema([pa.field(column, kind) for column, kind in schema.items()])
    if not isinstance(schema, pa.Schema):
        raise ArgumentError(
            f"schema={schema!r}: give a pyarrow.Schema, or a dict of names and pyarrow types"
        )
    _refuse_doubles(schema.names, "schema")
    fields = []
    for field in schema:
        kind = sparkable(field.type)
        if kind is None:
            raise ArgumentError(
                f"schema: the column {field.name!r} has the type {field.type}, which Spark has not"
            )
        fields.append(pa.field(field.name, kind))
    return pa.schema(fields)


def _refuse_doubles(names: Sequence[str], what: str) -> None:
    doubled = {name for name in names if names.count(name) > 1}
    if doubled:
        raise ColumnError(
            f"{what}: the column name {min(doubled)!r} is there twice; give each its own name"
        )


def overridden(
    declared: Sequence[tuple[str, pa.DataType | None, str]],
    override: pa.Schema | None,
    what: str,
) -> pa.Schema:
    """The schema of a table: the declared types, replaced by the user's where given.

    Declared are name, Arrow type (None: unknown) and the database's name of the type.
    """
    names = [name for name, _, _ in declared]
    _refuse_doubles(names, what)
    types = {} if override is None else {field.name: field.type for field in override}
    for name in types:
        if name not in names:
            raise ColumnError(f"schema: {what} has no column {name!r}. {suggest(name, names)}")
    fields = []
    for name, kind, type_name in declared:
        kind = types.get(name, kind)
        if kind is None:
            raise SourceError(
                f"{what}: the column {name!r} is declared as {type_name or 'nothing'}, for which "
                "no Spark type is known: give its pyarrow type with "
                f"schema={{{name!r}: pyarrow.string()}}"
            )
        fields.append(pa.field(name, kind))
    return pa.schema(fields)


def keeps_keys(declared: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values converted to another type equal those of the database, compared there.

    So a row is found by its converted key. Texts and bytes are compared with the database's own
    text or bytes of the value.

    >>> keeps_keys(pa.int32(), pa.decimal128(10, 2)), keeps_keys(pa.string(), pa.int32())
    (True, False)
    """
    kinds = pa.types
    exact = kinds.is_integer(declared) or kinds.is_decimal(declared)
    if declared.equals(wanted) or kinds.is_string(wanted):
        return True
    fine = False
    if kinds.is_binary(wanted):
        fine = kinds.is_string(declared)
    elif kinds.is_integer(wanted):
        fine = exact or kinds.is_floating(declared)
    elif kinds.is_decimal(wanted):
        fine = exact
    elif kinds.is_floating(wanted):
        fine = declared == pa.float32() or (exact and wanted == pa.float64())
    elif kinds.is_timestamp(wanted):
        fine = kinds.is_date(declared) or kinds.is_timestamp(declared)
    return fine


def wanted_columns(
    schema: pa.Schema, keys: Sequence[str], columns: Sequence[str] | None, what: str
) -> list[str]:
    """The key columns and the requested columns, each once."""
    wanted = list(dict.fromkeys([*keys, *(schema.names if columns is None else columns)]))
    for name in wanted:
        if name not in schema.names:
            raise ColumnError(f"{what} has no column {name!r}. {suggest(name, schema.names)}")
    return wanted


def fitted(table: pa.Table, schema: pa.Schema, what: str) -> pa.Table:
    """The table's columns, cast to exactly the schema's types, in its order."""
    arrays = [_cast(table.column(field.name), field, what) for field in schema]
    if not arrays:
        return table.select([])
    return pa.table(arrays, schema=schema)


def _cast(column: pa.ChunkedArray, field: pa.Field, what: str) -> pa.ChunkedArray:
    if column.type.equals(field.type):
        return column
    if not column.num_chunks:
        return pa.chunked_array([], field.type)
    column = pa.chunked_array([plain(chunk, _leaf(field.type)) for chunk in column.chunks])
    try:
        return _converted(column, field.type)
    except pa.ArrowException as error:
        reason = str(error)
    other = "binary" if pa.types.is_string(field.type) else "string"
    raise DataError(
        f"{what}: the column {field.name!r} holds {_offender(column, field.type)}, which is no "
        f"{field.type}: {reason}. Read it with another type, such as "
        f"schema={{{field.name!r}: pyarrow.{other}()}}"
    )


def _converted(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    _check_kinds(column, wanted)
    if pa.types.is_large_string(column.type):
        column = column.cast(pa.string())
    if pa.types.is_decimal(wanted) and (
        column.type == pa.float64() or (pa.types.is_string(column.type) and _is_odd(column))
    ):
        # Floats, exponents and very many digits use a slow conversion that changes none.
        try:
            return pa.chunked_array([array_of(column.to_pylist(), wanted, "", "")], wanted)
        except DataError:
            raise pa.ArrowInvalid("it is no number of so many digits") from None
    if pa.types.is_decimal(wanted) and pa.types.is_floating(column.type):
        return _converted(column.cast(pa.string()), wanted)
    if pa.types.is_integer(wanted) and pa.types.is_string(column.type):
        if pc.any(pc.match_substring_regex(column, "[xX]")).as_py():
            raise pa.ArrowInvalid("its digits are not decimal ones")
        column = pc.replace_substring_regex(column, r"\.0*$", "")  # a decimal that is whole
    # Arrow's own cast to 128 bits wraps around for numbers that are too large. A date is that of
    # its time; all other casts must be exact.
    for dtype in dict.fromkeys((_wide(wanted), wanted)):
        column = column.cast(options=pc.CastOptions(dtype, allow_time_truncate=True))
    return column


def _check_kinds(column: pa.ChunkedArray, wanted: pa.DataType) -> None:
    """Refuse what Arrow's cast takes for something: numbers for times, and all but 0 for true."""
    _check_types(column.type, wanted)
    if pa.types.is_boolean(wanted) and _is_number(column.type):
        bits = pc.or_(pc.equal(column, 0), pc.equal(column, 1))
        if not pc.all(bits, min_count=0).as_py():
            raise pa.ArrowInvalid("only 0 and 1 are false and true")


def _check_types(found: pa.DataType, wanted: pa.DataType) -> None:
    numbers = _is_number(found) or _is_number(wanted)
    if numbers and pa.types.is_temporal(found) != pa.types.is_temporal(wanted):
        raise pa.ArrowInvalid("a number is no date or time, nor is one of these a number")
    for inner, kind in _inside(found, wanted):
        to_decimal = pa.types.is_floating(inner) and pa.types.is_decimal(kind)
        to_integer = _is_text(inner) and pa.types.is_integer(kind)
        if to_decimal or to_integer or (_is_number(inner) and pa.types.is_boolean(kind)):
            raise pa.ArrowInvalid(f"inside other values {inner} is not read as {kind}")
        _check_types(inner, kind)


def _inside(found: pa.DataType, wanted: pa.DataType) -> Iterator[tuple[pa.DataType, pa.DataType]]:
    """The types inside a type, each with the one that it is cast to."""
    by_name = pa.types.is_struct(found) and pa.types.is_struct(wanted)
    for place in range(wanted.num_fields):
        field = wanted.field(place)
        at = found.get_field_index(field.name) if by_name else place
        if 0 <= at < found.num_fields:
            yield found.field(at).type, field.type


def _is_text(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_string(dtype) or pa.types.is_large_string(dtype))


def _is_number(dtype: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(dtype) or pa.types.is_floating(dtype) or pa.types.is_decimal(dtype)
    )


def _leaf(wanted: pa.DataType) -> Callable[[pa.Array], pa.Array] | None:
    """What makes values of which Arrow's cast to a type makes others; None if there are none."""
    if has_inside(wanted, pa.types.is_floating) and not has_inside(wanted, pa.types.is_decimal):
        return lambda array: _decimals_as_texts(_whole_microseconds(array))
    return _whole_microseconds if has_inside(wanted, pa.types.is_timestamp) else None


def _decimals_as_texts(array: pa.Array) -> pa.Array:
    """Arrow's floats of decimals are not always the nearest ones; those of texts are."""
    return array.cast(pa.string()) if pa.types.is_decimal(array.type) else array


def _whole_microseconds(array: pa.Array) -> pa.Array:
    """Times in nanoseconds, rounded down; Arrow's cast rounds those before 1970 up."""
    if not pa.types.is_timestamp(array.type) or array.type.unit != "ns":
        return array
    whole = pc.floor_temporal(array.cast(pa.timestamp("ns")), unit="microsecond")
    return whole.cast(pa.timestamp("us")).cast(pa.timestamp("us", array.type.tz))


def _is_odd(column: pa.ChunkedArray) -> bool:
    return bool(pc.any(pc.match_substring_regex(column, "[eE]|.{50}")).as_py())


def _wide(dtype: pa.DataType) -> pa.DataType:
    """The type with decimals of 256 bits, inside lists, structs and maps, too."""
    if pa.types.is_decimal(dtype):
        return pa.decimal256(76, dtype.scale)
    if pa.types.is_list(dtype):
        return pa.list_(_wide(dtype.value_type))
    if pa.types.is_map(dtype):
        return pa.map_(_wide(dtype.key_type), _wide(dtype.item_type))
    if pa.types.is_struct(dtype):
        return pa.struct([field.with_type(_wide(field.type)) for field in dtype])
    return dtype


def _offender(column: pa.ChunkedArray, wanted: pa.DataType) -> str:
    """The first value that cannot be converted, found by bisection."""
    while len(column) > 1:
        half = len(column) // 2
        try:
            _converted(column.slice(0, half), wanted)
            column = column.slice(half)
        except pa.ArrowException:
            column = column.slice(0, half)
    return reprs(column[:1])[0] if len(column) else "values"
