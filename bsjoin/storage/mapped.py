"""Memory-mapped files of a segment, validated before they are used.

A file may be damaged or malicious, even if its checksum is correct. So exactly the format that
bsjoin writes is accepted: one record batch of the expected columns, uncompressed, without
dictionaries, every buffer inside the file, every offset inside its data. The rest of bsjoin relies
on the arrays without further checks (docs/decisions/0012-validation.md).
"""

from __future__ import annotations

import contextlib
import itertools
import struct
from collections.abc import Callable, Iterator
from functools import lru_cache

import pyarrow as pa

from bsjoin.errors import DamagedTableError, StoreError
from bsjoin.storage.location import StorageLocation
from bsjoin.storage.segment_entries import StoredFile

_CHUNK = 1 << 16
_MAGIC = b"ARROW1\0\0"
_ALIGNMENT = 8
# The positions of these fields in the flatbuffers of Arrow's Message.fbs.
_HEADER, _COMPRESSION = 2, 3


@contextlib.contextmanager
def sound(location: StorageLocation, name: str) -> Iterator[None]:
    """Translate errors in a file to a :class:`DamagedTableError` that names table and file."""
    try:
        yield
    except StoreError:
        raise
    except FileNotFoundError:
        raise DamagedTableError(
            f"the file {name!r} of the table in {str(location)!r} is missing; "
            "was the version vacuumed while it was in use? Build the table again"
        ) from None
    except (ValueError, TypeError, EOFError, struct.error, pa.ArrowException) as error:
        raise DamagedTableError(
            f"the file {name!r} of the table in {str(location)!r} is damaged ({error}); "
            "build the table again"
        ) from error


def map_batch(
    location: StorageLocation, file: StoredFile, check_schema: Callable[[pa.Schema], None]
) -> pa.RecordBatch:
    """Map a file of one record batch.

    ``check_schema`` raises ValueError unless the columns are the expected ones.

    Raises:
        DamagedTableError: the file is missing or invalid.
        StoreAccessError: the file cannot be read.

    Complexity: O(rows) for columns of text, binary, long decimals, lists and maps, whose offsets
    and values are checked; O(1) for others.
    """
    with sound(location, file.name):
        mapped = location.map(*file)
        if mapped.size() != file.size:
            raise ValueError(f"it has {mapped.size()} bytes instead of {file.size}")
        try:
            return _batch(mapped, check_schema)
        except OSError as error:  # raised by Arrow for invalid bytes
            raise ValueError(str(error)) from error


def map_column(
    location: StorageLocation, file: StoredFile, rows: int, field: pa.Field | None
) -> pa.Array:
    """Map a file of one column.

    ``field`` has the type and nullability that it must have; None: its own.

    Raises:
        DamagedTableError: the file is missing or invalid.
        StoreAccessError: the file cannot be read.

    Complexity: as for :func:`map_batch`; O(rows) for nested types whose fields promise no nulls.
    """

    def check_schema(schema: pa.Schema) -> None:
        if len(schema) != 1 or (field is not None and schema.field(0).type != field.type):
            wanted = "one column" if field is None else f"one column of {field.type}"
            raise ValueError(f"it contains {shown(schema)} instead of {wanted}")

    batch = map_batch(location, file, check_schema)
    with sound(location, file.name):
        if batch.num_rows != rows:
            raise ValueError(f"it has {batch.num_rows} rows instead of {rows}")
        if field is not None and has_forbidden_nulls(batch.column(0), field):
            raise ValueError("it has nulls although the table's schema does not allow them")
    return batch.column(0)


def _batch(
    source: pa.MemoryMappedFile, check_schema: Callable[[pa.Schema], None]
) -> pa.RecordBatch:
    if source.read(len(_MAGIC)) != _MAGIC:
        raise ValueError("it is not an Arrow file")
    # After the magic bytes an Arrow file is an Arrow stream; its footer only repeats the
    # positions of the batches.
    messages = list(itertools.islice(pa.ipc.MessageReader.open_stream(source), 3))
    kinds = [message.type for message in messages]
    if kinds != ["schema", "record batch"]:
        raise ValueError(f"it holds {', '.join(kinds)} instead of a schema and a record batch")
    schema = pa.ipc.read_schema(messages[0])
    check_schema(schema)
    return _read(messages[1], schema)


def read_column(message: pa.Buffer, dtype: pa.DataType) -> pa.Array:
    """The column of an encapsulated message that has one; its buffers are those of the message.

    Raises:
        ValueError: the message is invalid, or of other columns.

    Complexity: as for :func:`map_batch`.
    """
    try:
        return _read(pa.ipc.read_message(message), pa.schema([("column", dtype)])).column(0)
    except OSError as error:  # raised by Arrow for invalid bytes
        raise ValueError(str(error)) from error


def _read(message: pa.ipc.Message, schema: pa.Schema) -> pa.RecordBatch:
    """A record batch of the given columns, validated."""
    if message.type != "record batch":
        raise ValueError(f"it holds a {message.type} instead of a record batch")
    if _is_compressed(message):
        raise ValueError("it is compressed")
    plain = _plain_schema(schema.remove_metadata())  # not each Arrow hashes it
    batch = pa.ipc.read_record_batch(message, plain)
    batch.validate(full=True)
    if not plain.equals(schema):
        batch = pa.ipc.read_record_batch(message, schema)
    body = message.body
    if not all(_is_inside(buffer, body) for c in batch.columns for buffer in c.buffers()):
        raise ValueError("a buffer is not mapped from the file")
    return batch


def shown(schema: pa.Schema) -> str:
    """The columns of a schema, for an error message."""
    return ", ".join(f"{field.name} ({field.type})" for field in schema)


def _is_inside(buffer: pa.Buffer | None, body: pa.Buffer | None) -> bool:
    if buffer is None or not buffer.size:
        return True
    if body is None or buffer.address % _ALIGNMENT:
        return False
    end = body.address + body.size
    return bool(body.address <= buffer.address and buffer.address + buffer.size <= end)


def _is_compressed(message: pa.ipc.Message) -> bool:
    """Whether the buffers of a record batch are compressed; Arrow would decompress them."""
    metadata = memoryview(message.metadata)
    root = struct.unpack_from("<I", metadata)[0]
    header = _field(metadata, root, _HEADER)
    if header is None:
        raise ValueError("a record batch has no header")
    batch = header + struct.unpack_from("<I", metadata, header)[0]
    return _field(metadata, batch, _COMPRESSION) is not None


def _field(metadata: memoryview, table: int, number: int) -> int | None:
    """The position of a field in a flatbuffer's table; None if the field is absent."""
    fields = table - struct.unpack_from("<i", metadata, table)[0]
    place = 4 + 2 * number
    if place + 2 > struct.unpack_from("<H", metadata, fields)[0]:
        return None
    offset = int(struct.unpack_from("<H", metadata, fields + place)[0])
    return table + offset if offset else None


@lru_cache(256)
def _plain_schema(schema: pa.Schema) -> pa.Schema:
    """The same columns with binary in place of text: Spark's strings may contain any bytes."""
    return pa.schema([field.with_type(_plain(field.type)) for field in schema])


def _plain(dtype: pa.DataType) -> pa.DataType:
    """The type with binary in place of text."""
    types = pa.types
    if types.is_string(dtype):
        return pa.binary()
    if types.is_large_string(dtype):
        return pa.large_binary()
    if types.is_struct(dtype):
        return pa.struct([field.with_type(_plain(field.type)) for field in dtype])
    if types.is_map(dtype):
        return pa.map_(_plain(dtype.key_type), dtype.item_field.with_type(_plain(dtype.item_type)))
    if types.is_list(dtype) or types.is_large_list(dtype):
        field = dtype.value_field.with_type(_plain(dtype.value_type))
        return pa.list_(field) if types.is_list(dtype) else pa.large_list(field)
    leaves = (types.is_primitive, types.is_null, types.is_decimal128)
    if any(kind(dtype) for kind in (*leaves, types.is_binary, types.is_large_binary)):
        return dtype
    raise ValueError(f"it has the type {dtype}, which is never stored")


def has_forbidden_nulls(array: pa.Array, field: pa.Field) -> bool:
    """Whether a column, or a value nested in it, is null although its field is not nullable.

    Complexity: O(rows) for nested types with fields that are not nullable; O(1) for others.
    """
    if array.null_count and not field.nullable:
        return True
    if not _promises(array.type):
        return False
    pieces = (array.slice(begin, _CHUNK) for begin in range(0, len(array), _CHUNK))
    return any(_has_nested_nulls(piece) for piece in pieces)


def _promises(dtype: pa.DataType) -> bool:
    """Whether a type has nested fields that are not nullable."""
    if pa.types.is_map(dtype):
        return not dtype.item_field.nullable or _promises(dtype.item_type)
    fields = [dtype.field(i) for i in range(dtype.num_fields)]
    return any(not field.nullable or _promises(field.type) for field in fields)


def _has_nested_nulls(array: pa.Array) -> bool:
    dtype = array.type
    if pa.types.is_struct(dtype):
        # The fields of a null struct are null, and may be.
        return any(
            (not field.nullable and child.null_count > array.null_count) or _has_nested_nulls(child)
            for child, field in zip(array.flatten(), dtype, strict=True)
        )
    if not pa.types.is_nested(dtype):
        return False
    if pa.types.is_map(dtype):  # Arrow does not flatten maps
        visible = array.drop_null()
        begin, end = visible.offsets[0].as_py(), visible.offsets[-1].as_py()
        field, values = dtype.item_field, visible.items.slice(begin, end - begin)
    else:
        field, values = dtype.value_field, array.flatten()
    return bool(values.null_count and not field.nullable) or _has_nested_nulls(values)
