"""The stored table: a folder with immutable versions, each a manifest and its segments.

::

    <location>/versions/00000001.json        the manifest of a version; written last
    <location>/data/<build>/0000.index.arrow the hash index of a segment
    <location>/data/<build>/0000.3.arrow     one of its columns
    <location>/data/<build>/u0000.3.arrow    a column of rows that match nothing

Pure pyarrow, numpy and fsspec: independent of Spark.
"""

from bsjoin.store.builds import Build
from bsjoin.store.location import StorageLocation
from bsjoin.store.manifest import KeyColumn, Manifest, RangeColumns, Stats
from bsjoin.store.merging import Gathering, HashRange, Merge, hash_ranges, run_groups
from bsjoin.store.runs import RUN, UNINDEXED_RUN, RunInfo, RunRows, write_run
from bsjoin.store.segment import Segment
from bsjoin.store.segment_entries import SegmentInfo, UnindexedInfo
from bsjoin.store.segment_writer import write_segment
from bsjoin.store.unindexed import write_unindexed

__all__ = [
    "RUN",
    "UNINDEXED_RUN",
    "Build",
    "Gathering",
    "HashRange",
    "KeyColumn",
    "Manifest",
    "Merge",
    "RangeColumns",
    "RunInfo",
    "RunRows",
    "Segment",
    "SegmentInfo",
    "Stats",
    "StorageLocation",
    "UnindexedInfo",
    "hash_ranges",
    "run_groups",
    "write_run",
    "write_segment",
    "write_unindexed",
]
