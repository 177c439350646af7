"""What pyiceberg makes other values of, as it reads columns of files as those of the table."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pyarrow as pa


@functools.cache
def mend(arrow: Any) -> None:
    """Let the module ``pyiceberg.io.pyarrow`` read what files have, in this process.

    It takes a null list or map with structs in it for an empty one, does not find what was renamed
    deeper inside them, has no date as a timestamp, and INT96 in nanoseconds, which end in 2262.
    """

    class Projection(arrow.ArrowProjectionVisitor):  # type: ignore[misc]
        def list(self, kind: Any, array: Any, values: Any) -> Any:
            if values is None or not isinstance(array, pa.ListArray | pa.LargeListArray):
                return super().list(kind, array, values)
            values = self._cast_if_needed(kind.element_field, values)
            field = self._construct_field(kind.element_field, values.type)
            made = pa.large_list if isinstance(array, pa.LargeListArray) else pa.list_
            return type(array).from_arrays(_ends(array), values, made(field), mask=array.is_null())

        def map(self, kind: Any, array: Any, keys: Any, values: Any) -> Any:
            if keys is None or values is None or not isinstance(array, pa.MapArray):
                return super().map(kind, array, keys, values)
            keys = self._cast_if_needed(kind.key_field, keys)
            values = self._cast_if_needed(kind.value_field, values)
            dtype = pa.map_(
                self._construct_field(kind.key_field, keys.type),
                self._construct_field(kind.value_field, values.type),
            )
            return pa.MapArray.from_arrays(_ends(array), keys, values, dtype, mask=array.is_null())

        def _cast_if_needed(self, field: Any, values: Any) -> Any:
            if pa.types.is_date32(values.type) and str(field.field_type) == "timestamp":
                return values.cast(pa.timestamp("us"))
            return super()._cast_if_needed(field, values)

    made_by_library = arrow._get_file_format

    def file_format(kind: Any, **options: Any) -> Any:
        if kind == arrow.FileFormat.PARQUET:
            options["coerce_int96_timestamp_unit"] = "us"
        return made_by_library(kind, **options)

    arrow.ArrowProjectionVisitor, arrow._get_file_format = Projection, file_format


def _ends(array: Any) -> pa.Array:
    """Where the values of each row end, after where the first begin; no slice of another array."""
    return pa.array(np.asarray(array.offsets))
