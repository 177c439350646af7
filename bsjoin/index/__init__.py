"""Index structures: built from sorted arrays, probed a whole batch at a time.

Pure numpy: independent of Spark, files and Arrow.
"""

from bsjoin.index.aggregate_tree import AggregateTree, Part
from bsjoin.index.arrays import Bools, Float64s, Int32s, Int64s
from bsjoin.index.boxes import MOST_DIMENSIONS, BoxIndex, Sides, box_shares
from bsjoin.index.encoding import GREATEST, LEAST, add_saturated, codes, floats, reach
from bsjoin.index.first_of_each import each_in_order, first_of_each
from bsjoin.index.hash import HashIndex, are_dense, dense_order, with_sentinel
from bsjoin.index.integer_hash import hashes_of_integers, integers_of_hashes
from bsjoin.index.intervals import Asked, IntervalIndex, last_codes
from bsjoin.index.levels import levels
from bsjoin.index.nearest import Later, later_float, later_int, nearest
from bsjoin.index.nearest_rows import nearest_rows
from bsjoin.index.ordered_dictionary import ByteStrings, OrderedDictionary
from bsjoin.index.range_max_tree import RangeMaxTree
from bsjoin.index.row_order import row_order
from bsjoin.index.row_pairs import expand, pairs
from bsjoin.index.skiplist import SkipList
from bsjoin.index.sorted_rows import SortedRows
from bsjoin.index.wide import (
    add_wide,
    clamped,
    divide_wide,
    later_wide,
    multiply_wide,
    wide_texts,
    words_of_texts,
)

__all__ = [
    "GREATEST",
    "LEAST",
    "MOST_DIMENSIONS",
    "AggregateTree",
    "Asked",
    "Bools",
    "BoxIndex",
    "ByteStrings",
    "Float64s",
    "HashIndex",
    "Int32s",
    "Int64s",
    "IntervalIndex",
    "Later",
    "OrderedDictionary",
    "Part",
    "RangeMaxTree",
    "Sides",
    "SkipList",
    "SortedRows",
    "add_saturated",
    "add_wide",
    "are_dense",
    "box_shares",
    "clamped",
    "codes",
    "dense_order",
    "divide_wide",
    "each_in_order",
    "expand",
    "first_of_each",
    "floats",
    "hashes_of_integers",
    "integers_of_hashes",
    "last_codes",
    "later_float",
    "later_int",
    "later_wide",
    "levels",
    "multiply_wide",
    "nearest",
    "nearest_rows",
    "pairs",
    "reach",
    "row_order",
    "wide_texts",
    "with_sentinel",
    "words_of_texts",
]
