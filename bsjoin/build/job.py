"""The build job: a DataFrame becomes sorted, indexed segments, in parallel, without a collect.

Spark hashes the keys. Each task writes a run of rows, sorted by hash, for every 64 MB of its rows;
then the runs are merged into segments of up to ``segment_bytes``, each of a range of hashes, one
column at a time. For range joins the rows of a key are sorted by their point; where the key is an
integer and keys are close together, the rows are sorted by it, for a direct address table. So there
is no shuffle, no task holds more than a run or two columns, and no row visits the driver unless all
fit into a run.

Rows that match nothing are in runs of their own. They are put together without being indexed.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from bsjoin.build.layout import Layout, key_columns
from bsjoin.build.merging import INFO, RUN_BYTES, collected, gathered, merged
from bsjoin.build.progress import shown
from bsjoin.build.run_writer import Split, run_writer
from bsjoin.errors import DuplicateKeyError, StoreAccessError, StoreError, StoreFullError
from bsjoin.planner.boxes import box_sides
from bsjoin.planner.keys import KeySide, hash_is_exact, hashable, table_key
from bsjoin.planner.range_columns import range_side
from bsjoin.spark import sql
from bsjoin.spark.arrow import arrow_fields, not_storable
from bsjoin.spark.session import default_parallelism
from bsjoin.spark.sql import quoted
from bsjoin.spark.workers import check_workers
from bsjoin.storage import (
    NULL_KEYS,
    UNINDEXED_RUN,
    Build,
    Gathering,
    Latest,
    Manifest,
    Merge,
    RunInfo,
    SegmentForm,
    SegmentInfo,
    StorageLocation,
    versions,
)
from bsjoin.storage.manifest import has_integer_key
from bsjoin.storage.ties import ties_of

_FEW_TASKS = 64
_HASH, _COMPARED, _TIE = "h", "k{}", "t{}"


def build(df: DataFrame, begun: Build, layout: Layout) -> Manifest:
    """Write the segments of a new version; nothing is visible until it is published.

    If this fails the caller abandons ``begun``.

    Returns:
        The manifest, its version number still open.

    Raises:
        DuplicateKeyError: a key occurs twice, and the layout says unique.
        WorkerEnvironmentError: the workers cannot run it.
        StoreFullError, StoreAccessError: the location cannot be written to.
    """
    check_workers(df.sparkSession)
    fields = {field.name: field for field in df.schema.fields}
    key_types = [fields[name].dataType for name in layout.on]
    safe = [name in layout.nulls_equal for name in layout.on] if layout.nulls_equal else None
    key = table_key([*map(sql.column, layout.on)], key_types, safe)
    compared = [_COMPARED.format(i) for i in range(len(key.compared))]
    stored = T.StructType([fields[name] for name in layout.columns])
    # Names inside the job are positions: the table's own names may repeat ours.
    names = [f"c{i}" for i in range(len(layout.columns))]
    ranged, boxes = range_side(layout.ranged), range_side(*(one.columns for one in layout.boxes))
    boxes = {f"b{name}": value for name, value in boxes.items()}
    unstored = [name for name in layout.row if name not in layout.columns]
    ordered = unstored if layout.is_ordered else []
    found = {
        _HASH: _sorted_by(key, ranged, stored) if layout.whole else key.hash,
        **dict(zip(compared, key.compared, strict=True)),
        **ranged,
        **boxes,
        **{name: sql.column(c) for c, name in zip(layout.columns, names, strict=True)},
        **{_TIE.format(i): _sortable(fields[name]) for i, name in enumerate(ordered)},
    }
    keyed = df.selectExpr(*(f"{value} AS {name}" for name, value in found.items()))
    if not layout.whole:
        keyed = keyed.where(f"{_HASH} IS NOT NULL")
        if ranged:
            # A row without a point, or without a start, matches nothing.
            keyed = keyed.where(f"{next(iter(ranged))} IS NOT NULL")
    compared_types = T.StructType([keyed.schema[name] for name in compared])
    range_types = T.StructType([keyed.schema[name] for name in (*ranged, *boxes)])
    compared_fields = [field.with_nullable(False) for field in arrow_fields(compared_types)]
    if safe is not None:
        compared_fields[-1] = compared_fields[-1].with_name(NULL_KEYS)
    schema = pa.schema([*compared_fields, *arrow_fields(stored)])
    order_types = T.StructType([keyed.schema[_TIE.format(i)] for i in range(len(ordered))])
    before = [*compared_fields, *arrow_fields(range_types)]
    written = pa.schema([*before, *arrow_fields(stored), *arrow_fields(order_types)])
    called = [*(field.name for field in before), *layout.columns, *ordered]
    typed = [*zip(called, written.types, strict=True)]
    latest = None
    if layout.latest is not None:
        ties = ties_of(layout.latest.order, layout.row, typed)
        # Of a key and its first range: whether there are boxes changes no rows.
        latest = Latest(len(compared_fields) + len(ranged), ties, layout.latest.keep)
    keys = key_columns(df, layout)
    form = SegmentForm(
        keys=len(compared),
        ranged=len(ranged),
        closed=None if layout.ranged is None else layout.ranged.closed,
        ties=() if layout.ranged is None else ties_of(layout.ranged.order_by, layout.row, typed),
        ordered=layout.ranged is not None and layout.ranged.ordered,
        unstored=len(ordered),
        integers=has_integer_key(keys, layout.ranged),
        boxes=box_sides(layout.ranged, layout.condition, layout.boxes),
    )
    merge = Merge(begun, written, form, latest)
    gathering = Gathering(begun, pa.schema(arrow_fields(stored)))
    split = Split.of(layout.columns, layout.needed, len(before)) if layout.whole else None
    limit = min(RUN_BYTES, layout.segment_bytes)
    with _worker_errors(begun.location), shown(df.sparkSession, begun) as progress:
        tasks = max(_FEW_TASKS, 4 * default_parallelism(df.sparkSession))
        writer = run_writer(begun, written, limit, split, latest)
        work = keyed.coalesce(tasks).mapInArrow(writer, INFO)
        runs = [*map(RunInfo.from_json, collected(work))]
        # In the order of the source: the same rows make the same segments.
        runs.sort(key=lambda run: run.name)
        others = [run for run in runs if run.name.endswith(UNINDEXED_RUN)]
        indexed = [run for run in runs if not run.name.endswith(UNINDEXED_RUN)]
        segments = merged(df.sparkSession, merge, indexed, layout.segment_bytes, progress)
        unindexed = gathered(df.sparkSession, gathering, others, layout.segment_bytes)
    _check_unique(df, layout, segments)
    manifest = Manifest(
        version=0,
        activates_at_us=0,
        created_at_us=0,
        build_s=0,
        keys=keys,
        compared=len(compared),
        unique=layout.has_unique_keys,
        schema=schema,
        spark_schema=stored.json(),
        segments=segments,
        ranged=layout.ranged,
        condition=layout.condition,
        row=layout.row if layout.is_ordered else None,
        unindexed=unindexed if layout.whole else None,
        latest=layout.latest,
        boxes=layout.boxes,
        base=begun.name,
    )
    merge.clean({name for name, _, _ in manifest.files})
    _check_visible(begun.location, manifest)
    assert hash_is_exact(key_types, safe) == (not compared)
    return manifest


def _sortable(field: T.StructField) -> str:
    """A column that only orders rows; the text of what cannot travel to the workers."""
    value = sql.column(field.name)
    return value if not_storable(field) is None else sql.cast(value, T.StringType())


def _sorted_by(key: KeySide, ranged: Mapping[str, str], stored: T.StructType) -> str:
    """The hash of the key; of a row that matches nothing one of all that Spark can hash."""
    point = next(iter(ranged.values()), None)
    found = key.hash if point is None else sql.case((f"{point} IS NOT NULL", key.hash))
    names = hashable(stored)
    content = f"xxhash64({', '.join(map(sql.column, names))})" if names else "0L"
    return f"coalesce({found}, {content})"


def _check_unique(df: DataFrame, layout: Layout, segments: Sequence[SegmentInfo]) -> None:
    if not layout.unique or all(segment.longest_run == 1 for segment in segments):
        return
    names = [_COMPARED.format(i) for i in range(len(layout.on))]
    keys = df.select(*(F.col(quoted(c)).alias(n) for c, n in zip(layout.on, names, strict=True)))
    for column, name in zip(layout.on, names, strict=True):  # `dropna` would drop NaN, too
        if column not in layout.nulls_equal:
            keys = keys.where(F.col(name).isNotNull())
    counts = keys.groupBy(*names).agg(F.count(F.lit(1)).alias("rows")).where("rows > 1")
    found = counts.limit(1).toArrow().to_pylist()
    *key, count = found[0].values() if found else ("?", "several")
    example = ", ".join(f"{name}={value!r}" for name, value in zip(layout.on, key, strict=False))
    raise DuplicateKeyError(
        f"the table is declared unique on {list(layout.on)}, but this key occurs in {count} rows: "
        f"{example}. Remove the duplicates, or leave unique out"
    )


def _check_visible(location: StorageLocation, manifest: Manifest) -> None:
    if (name := versions.first_missing(location, manifest)) is not None:
        raise StoreError(
            f"the workers wrote {name!r} to {str(location)!r}, but it is not visible from here: "
            "give store=/path= a folder that the driver and all workers share"
        )


@contextlib.contextmanager
def _worker_errors(location: StorageLocation) -> Iterator[None]:
    """Give the store errors of a worker back their class."""
    try:
        yield
    except PySparkException as error:
        text = str(error)
        for kind in (StoreFullError, StoreAccessError, StoreError):
            if found := re.search(rf"\b{kind.__name__}: (.*)", text):
                raise kind(found[1]) from error
        if "No space left on device" in text:
            raise StoreFullError(
                f"no space left on a device while the table in {str(location)!r} was built. "
                "Nothing half-built is visible"
            ) from error
        raise
