"""The stored table: a folder with immutable versions, each a manifest and its segments.

::

    <location>/versions/00000001.json        the manifest of a version; written last
    <location>/data/<build>/0000.index.arrow the hash index of a segment
    <location>/data/<build>/0000.3.arrow     one of its columns

Pure pyarrow, numpy and fsspec: independent of Spark.
"""

from bsjoin.store.location import StorageLocation
from bsjoin.store.manifest import KeyColumn, Manifest, RangeColumns, Stats
from bsjoin.store.segment import Segment, SegmentInfo, merge_segments, write_segment

__all__ = [
    "KeyColumn",
    "Manifest",
    "RangeColumns",
    "Segment",
    "SegmentInfo",
    "Stats",
    "StorageLocation",
    "merge_segments",
    "write_segment",
]
