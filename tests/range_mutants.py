"""Deliberate faults in ranges that no case of the fuzz reaches: bounds of plain SQL, long runs.

``python -m tests.mutants --only ranges --suite tests/jvm/test_plain_range_plans.py
tests/jvm/test_plain_boxes.py tests/test_aggregates.py`` puts each into a copy of the checkout.
"""

from __future__ import annotations

from tests.fuzz.mutants import Mutant

_JAVA = "runtimes/jvm/java/bsjoin/jvm"

RANGE_MUTANTS = [
    Mutant(f"ranges: {name}", file, old, new)
    for name, file, old, new in (
        # A row of the stream that is met whatever the table's is: `s.until IS NULL OR ...`.
        ("a null that admits all is the greatest value", f"{_JAVA}/lookup/RangeBound.java",
         "return isAny() ? limit() : (Long) Long.MAX_VALUE;", "return (Long) Long.MAX_VALUE;"),
        ("a rank for a null that admits all is below all", f"{_JAVA}/lookup/RankBound.java",
         "return isAny() ? limit() : ALL_BELOW;", "return ALL_BELOW;"),
        ("what admits all says that there is a point", f"{_JAVA}/planner/DimensionBounds.java",
         "!one.orNull() && !one.orAny();", "!one.orNull();"),
        ("what admits some rows admits those of the bound alone",
         f"{_JAVA}/planner/RangeCondition.java",
         "coalesced || bounding != value);", "coalesced);"),
        # Rows without a point are not in the index.
        ("an index has rows without a point", f"{_JAVA}/planner/IndexJoin.java",
         "|| isFirst && !follows && manifest.indexesAllRows();", "|| isFirst && !follows;"),
        ("boxes have rows without a point", f"{_JAVA}/planner/IndexJoin.java",
         "|| isFirst && !follows && manifest.indexesAllRows();",
         "|| !follows && manifest.indexesAllRows();"),
        # Runs of many blocks.
        ("JVM: of the third level only the ends count", f"{_JAVA}/storage/AggregateBlocks.java",
         "for (int node = begin; node < end; node++) {",
         "for (int node = begin; node < (level < 2 ? end : begin); node++) {"),
        ("of the third level only the ends count", "index/aggregate_tree.py",
         "while others and (begins < ends).any():",
         "while level < 2 and others and (begins < ends).any():"),
    )
]  # fmt: skip
