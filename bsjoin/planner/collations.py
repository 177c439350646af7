"""Keys that are texts with a collation: a stored table knows by which version of its rules.

The keys that are stored are made by ICU, the library that Spark compares texts with. A later one
may compare them in another way, and then makes other keys.
"""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import types as T  # noqa: N812

from bsjoin.errors import TableMismatchError
from bsjoin.planner.keys import is_collated, type_name, type_of
from bsjoin.spark.collations import collation_version
from bsjoin.storage import Manifest


def stored_type(spark: SparkSession, dtype: T.DataType) -> str:
    """The type of a key as a manifest has it: with the version of the collation's rules."""
    if isinstance(dtype, T.StringType) and is_collated(dtype):
        return f"{type_name(dtype)} {collation_version(spark, dtype.collation)}"
    return type_name(dtype)


def has_collations(manifest: Manifest) -> bool:
    """Whether a key of a table is a text with a collation."""
    return any(is_collated(type_of(key.type)) for key in manifest.keys)


def check_collations(spark: SparkSession, manifest: Manifest, path: str) -> None:
    """Refuse a table whose keys were made by other rules than the session has.

    Raises:
        TableMismatchError: names both versions.
    """
    for key in manifest.keys:
        dtype = type_of(key.type)
        if is_collated(dtype) and key.type != (here := stored_type(spark, dtype)):
            raise TableMismatchError(
                f"the table in {path!r} was built by another version of Spark or ICU, which may "
                f"compare the texts of its key {key.name!r} in another way ({key.type}, and here "
                f"{here}). Refresh it, or build it again, with the version that joins it"
            )
