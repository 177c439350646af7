"""The stored table: a folder with immutable versions, each a manifest and its segments.

::

    <location>/versions/00000001.json        the manifest of a version; written last
    <location>/data/<build>/0000.index.arrow the hash index of a segment
    <location>/data/<build>/0000.boxes.arrow its rows by several ranges at once
    <location>/data/<build>/0000.3.arrow     one of its columns
    <location>/data/<build>/u0000.3.arrow    a column of rows that match nothing

Pure pyarrow, numpy and fsspec: independent of Spark.
"""

from bsjoin.storage.box_file import BoxSide
from bsjoin.storage.builds import Build
from bsjoin.storage.latest import Latest, LatestBy
from bsjoin.storage.location import StorageLocation
from bsjoin.storage.manifest import (
    NULL_KEYS,
    BoxRange,
    KeyColumn,
    Manifest,
    RangeColumns,
    Stats,
    box_signature,
)
from bsjoin.storage.merging import Gathering, HashRange, Merge, hash_ranges, run_groups
from bsjoin.storage.runs import RUN, UNINDEXED_RUN, RunInfo, RunRows, write_run
from bsjoin.storage.segment import Segment
from bsjoin.storage.segment_entries import SegmentInfo, UnindexedInfo
from bsjoin.storage.segment_writer import SegmentForm, write_segment
from bsjoin.storage.source_version import SourceVersion
from bsjoin.storage.unindexed import write_unindexed

__all__ = [
    "NULL_KEYS",
    "RUN",
    "UNINDEXED_RUN",
    "BoxRange",
    "BoxSide",
    "Build",
    "Gathering",
    "HashRange",
    "KeyColumn",
    "Latest",
    "LatestBy",
    "Manifest",
    "Merge",
    "RangeColumns",
    "RunInfo",
    "RunRows",
    "Segment",
    "SegmentForm",
    "SegmentInfo",
    "SourceVersion",
    "Stats",
    "StorageLocation",
    "UnindexedInfo",
    "box_signature",
    "hash_ranges",
    "run_groups",
    "write_run",
    "write_segment",
    "write_unindexed",
]
