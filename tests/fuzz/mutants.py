"""Deliberate faults in the engine, one at a time: each has to be found by the fuzz.

``python -m tests.fuzz.mutants`` puts each into a running session (``faulty.py``), in which the
fuzz begins anew.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fuzz.faulty import FaultySession, HarnessError

__all__ = ["MUTANTS", "Mutant"]

_ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True)
class Mutant:
    """A fault.

    Args:
        name: what is wrong.
        file: where, below ``bsjoin/``.
        old: the text there, which occurs once.
        new: what replaces it.
        needs: what a join has to have to show it (:mod:`tests.fuzz.words`).
    """

    name: str
    file: str
    old: str
    new: str
    needs: str = ""

    def applied(self, text: str) -> str:
        """The text of the file with the fault."""
        assert text.count(self.old) == 1, (self.name, text.count(self.old))
        return text.replace(self.old, self.new)


_JAVA = "runtimes/jvm/java/bsjoin/jvm"


def _java(name: str, file: str, old: str, new: str, needs: str = "") -> Mutant:
    return Mutant(f"JVM: {name}", f"{_JAVA}/{file}.java", old, new, needs)


MUTANTS = (
    # The Python kernels.
    Mutant("pairs begin a row late", "index/row_pairs.py",
           "offsets = firsts - (np.cumsum(counts) - counts)",
           "offsets = firsts + 1 - (np.cumsum(counts) - counts)",
           "brings several"),
    Mutant("a range without its last row", "index/row_pairs.py",
           "counts = np.maximum(stops - firsts, 0)",
           "counts = np.maximum(stops - firsts - 1, 0)",
           "brings Band|AsOf"),
    Mutant("runs of at most two rows", "index/hash.py",
           "return self.runs.take(rows).astype(np.int64)",
           "return np.minimum(self.runs.take(rows), 2).astype(np.int64)",
           "equality brings several"),
    Mutant("the first probe stays in its bucket", "index/hash.py",
           "behind = np.flatnonzero(there < hashes)\n        while",
           "behind = np.flatnonzero(there < hashes)[1:]\n        while",
           "hashed-key"),
    Mutant("a number without rows is found", "index/hash.py",
           "return firsts.astype(np.int64), firsts < ends",
           "return firsts.astype(np.int64), firsts <= ends",
           "integer-key stored|private"),
    Mutant("the number behind the last one is found", "index/hash.py",
           "return rows, rows < last  #", "return rows % last, rows <= last  #",
           "full stored|private"),
    Mutant("equal hashes are equal keys", "storage/segment.py",
           "doubtful = doubtful[~equal]", "doubtful = doubtful[:0]",
           "key-string|key-binary|several-keys"),
    Mutant("only the first key of a hash is compared", "storage/segment.py",
           "again = self.index.has(ahead, hashes.take(doubtful))",
           "again = np.zeros(len(ahead), np.bool_)",
           "key-string|key-binary|several-keys"),
    Mutant("NaN is below all", "index/encoding.py",
           "doubles[np.isnan(doubles)] = np.nan", "doubles[np.isnan(doubles)] = -np.inf",
           "nan"),
    Mutant("-0.0 is below 0.0 in ranges", "index/encoding.py",
           "doubles = values.astype(np.float64) + 0.0",
           "doubles = values.astype(np.float64) - 0.0",
           "zeros"),
    Mutant("a band overflows", "index/encoding.py",
           "sums = np.clip(sums, room[1], room[0]) + np.int64(piece)",
           "sums = sums + np.int64(piece)",
           "Band limits point-exact"),
    Mutant("an infinity has a distance", "index/encoding.py",
           "finite = np.isfinite(values)", "finite = ~np.isnan(values)",
           "AsOf infinity tolerance"),
    Mutant("NaN has a distance", "index/encoding.py",
           "least[nowhere], greatest[nowhere] = GREATEST, LEAST",
           "least[nowhere], greatest[nowhere] = LEAST, GREATEST",
           "AsOf nan tolerance|nearest"),
    Mutant("of equally near rows the later one", "index/nearest.py",
           "ahead = values.take(behind).view(np.uint64) - point\n        return np.asarray(ahead <",
           "ahead = values.take(behind).view(np.uint64) - point\n"
           "        return np.asarray(ahead <=",
           "nearest point-exact|point-date|point-timestamp|point-timestamp_ntz"),
    Mutant("backward takes the last of equal rows", "index/nearest.py",
           "        first_of_equals(rows, before, low, high)\n", "",
           "looks-back many|no-keys stored"),
    Mutant("of several nearest rows the last ones of equal points", "index/nearest_rows.py",
           "skipped.take(positions), 0)", "0, 0)",
           "n-nearest looks-back many|no-keys stored"),
    Mutant("one row more than n", "index/nearest_rows.py",
           "starts.take(positions) < n", "starts.take(positions) <= n",
           "n-nearest nearest many|no-keys"),
    Mutant("exact=False is ignored backward", "index/nearest.py",
           'before = rows.search(probes, "right" if exact else "left", low,',
           'before = rows.search(probes, "right", low,',
           "strictly looks-back"),
    Mutant("forward goes into the next key", "index/nearest.py",
           "behind[behind >= high] = -1", "behind[behind > high] = -1\n"
           "        behind[behind >= rows.rows] = -1",
           "looks-ahead one-key|several-keys"),
    Mutant("a band is closed on the left", "runtimes/python/worker/range_search.py",
           'left: Side = "left" if predicate.closed in ("both", "left") else "right"',
           'left: Side = "left"',
           "Band closed-right|closed-neither"),
    Mutant("a band is closed on the wrong side", "runtimes/python/worker/range_search.py",
           'right: Side = "right" if predicate.closed in ("both", "right") else "left"',
           'right: Side = "right" if predicate.closed in ("both", "left") else "left"',
           "Band closed-right|closed-left"),
    Mutant("a null point matches", "runtimes/python/worker/range_search.py",
           "    high = _without_nulls(probes, low, high)\n    rows = index.rows\n"
           "    if isinstance(rows, SortedRows):\n        yield",
           "    rows = index.rows\n    if isinstance(rows, SortedRows):\n        yield",
           "null-point brings"),
    Mutant("a null point matches in semi and anti joins", "runtimes/python/worker/range_search.py",
           "    high = _without_nulls(probes, low, high)\n    rows = index.rows\n"
           "    if isinstance(rows, SortedRows):\n        firsts",
           "    rows = index.rows\n    if isinstance(rows, SortedRows):\n        firsts",
           "null-point filters"),
    Mutant("the interval that starts first", "runtimes/python/worker/interval_orders.py",
           "~starts.take(rows)", "starts.take(rows)",
           "take-latest_start brings"),
    Mutant("of intervals that are alike the last one", "runtimes/python/worker/interval_orders.py",
           "(lasts.take(rows), places.take(rows))", "(lasts.take(rows), -places.take(rows))",
           "take-earliest_end brings"),
    Mutant("an interval without an end is short", "runtimes/python/worker/interval_orders.py",
           "return [np.where(endless, GREATEST, length)]",
           "return [np.where(endless, ~GREATEST, length)]",
           "take-shortest brings"),
    Mutant("[5, 5) is not empty", "index/intervals.py",
           'empty = starts > ends if closed == "both" else starts >= ends',
           "empty = starts > ends",
           "empty closed-left|closed-right|closed-neither"),
    Mutant("ends belong to all intervals", "index/intervals.py",
           'lasts = ends.copy() if closed in ("both", "right") else ends - 1',
           "lasts = ends.copy()",
           "intervals closed-left|closed-neither"),
    Mutant("a null end is the least one", "index/intervals.py",
           "lasts[missing_ends] = GREATEST", "lasts[missing_ends] = LEAST",
           "null-end"),
    Mutant("starts belong to all intervals", "index/intervals.py",
           'side: Side = "right" if self.closed in ("both", "left") else "left"',
           'side: Side = "right"',
           "Within closed-right|closed-neither"),
    Mutant("the stream's null end is a value", "index/intervals.py",
           "stops = np.where(missing_ends, high, stops)", "stops = stops + 0",
           "Overlaps null-asked-end"),
    Mutant("(1, 2] and (2, 3] touch", "index/intervals.py",
           "return low, stops, np.minimum(starts, GREATEST - 1) + 1", "return low, stops, starts",
           "Overlaps closed-right"),
    Mutant("the last node of a tree is left out", "index/range_max_tree.py",
           "inside &= nodes <= (stops.take(probes) - 1) >> shift",
           "inside &= nodes < ((stops.take(probes) - 1) >> shift) + (level > 0)",
           "intervals many|no-keys brings"),
    Mutant("any match is a match", "index/range_max_tree.py",
           "reached |= (begin + place < end) & (value >= wanted)",
           "reached |= (begin + place < end)",
           "intervals filters"),
    Mutant("a long run loses its last row", "runtimes/python/worker/full_cache.py",
           "columns = [pa.array(rows), pa.array(counts)]",
           "columns = [pa.array(rows), pa.array(counts - 1)]",
           "equality long-runs brings stored|private"),
    Mutant("new versions are never read", "runtimes/python/worker/full_cache.py",
           "there = versions.there(location, table.known)",
           "there = list(table.known.values()) or versions.there(location)",
           "streaming refresh stored"),
    Mutant("a replay uses the newest version", "storage/versions.py",
           "chosen = active_at(time_us, entries)", "chosen = entries[-1] if entries else None",
           "streaming replay-after-refresh stored"),
    Mutant("a missing key has rows", "storage/open_table.py",
           "        counts[rows < 0] = 0\n", "",
           "several brings"),
    Mutant("-0.0 of a source is another key", "runtimes/python/worker/matching.py",
           "values = array.to_numpy(zero_copy_only=False) + 0.0",
           "values = array.to_numpy(zero_copy_only=False) - 0.0",
           "callback zero-keys"),
    Mutant("a row without a point is cached", "runtimes/python/worker/grouping.py",
           "    whose = np.where(first.is_null().to_numpy(zero_copy_only=False), -1, whose)\n", "",
           "callback null-row"),
    Mutant("cached rows begin at the wrong place", "cache/content.py",
           'fresh["first"] = self.header.rows + np.cumsum(counts) - counts',
           'fresh["first"] = self.header.rows + np.cumsum(counts) - 1',
           "callback|sqlite brings several"),
    Mutant("the next rows overwrite the last ones", "cache/content.py",
           "self.header.rows += int(counts.sum())", "self.header.rows += int(counts[:-1].sum())",
           "callback|sqlite brings"),
    Mutant("the first row of an answer is lost", "runtimes/python/worker/loading.py",
           "order = order[int((whose < 0).sum()) :]",
           "order = order[int((whose < 0).sum()) + 1 :]",
           "callback|sqlite brings"),
    Mutant("beside null keys, one row of a key", "runtimes/python/worker/incremental_cache.py",
           "first[places], counts[places] = rows.first, rows.counts",
           "first[places], counts[places] = rows.first, np.minimum(rows.counts, 1)",
           "callback|sqlite brings several null-key"),
    Mutant("cached and queried rows are mixed up", "runtimes/python/worker/row_refs.py",
           "back[np.concatenate(order)] = np.arange(len(rows))", "back[:] = np.arange(len(rows))",
           "callback|sqlite brings"),
    Mutant("cached texts begin at zero", "cache/columns.py",
           "begin = int(self._ends.view(at + 1)[at])\n        if data",
           "begin = 0\n        if data",
           "callback|sqlite brings-string|brings-binary"),
    Mutant("rows of one key stay apart", "storage/segment_writer.py",
           "    if len(collided):", "    if False:", "one-hash"),
    Mutant("texts are compared by eight bytes", "index/ordered_dictionary.py",
           "counts = np.clip(self.offsets.take(rows + 1) - begins, 0, _PIECE + 1)",
           "counts = np.clip(self.offsets.take(rows + 1) - begins, 0, _PIECE)",
           "point-string|point-binary"),
    Mutant("the carry of 128 bits is lost", "index/wide.py",
           "carry = (low_sum < low).astype(np.int64)", "carry = np.int64(0)",
           "Band wide negative"),
    Mutant("negative numbers are divided towards zero", "index/wide.py",
           "return np.where(negative[:, None], ~quotients, quotients), left",
           "return np.where(negative[:, None], ~quotients + left[:, None], quotients), left",
           "wide finer between negative"),
    Mutant("of equally near decimals the later one", "index/wide.py",
           "less = (ahead_high == back_high) & (ahead_low < back_low)",
           "less = (ahead_high == back_high) & (ahead_low <= back_low)",
           "nearest wide"),
    Mutant("at the limit of 64 bits a band is cut at a row", "runtimes/python/worker/probes.py",
           "np.where(beyond & (step != 0), shift, int(further))",
           "np.where(beyond & (step != 0), 0, int(further))",
           "Band limits point-exact"),
    Mutant("half a unit is a unit", "runtimes/python/worker/probes.py",
           "step = math.floor(delta)", "step = math.ceil(delta)",
           "Band point-exact"),
    Mutant("a value between two ranks is the lower one", "runtimes/python/worker/probes.py",
           "return Cuts(ranks + (above & (ranks & 1 == 1)))", "return Cuts(ranks)",
           "ranked finer between"),
    # The plans.
    Mutant("5.5 is the key 5", "planner/keys.py",
           'return sql.case((f"{converted} = {value}", converted))', "return converted",
           "decimal-for-integer"),
    Mutant("one null key of several is no null", "planner/keys.py",
           'known = " AND ".join', 'known = " OR ".join',
           "several-keys null-key"),
    Mutant("without columns a key has one row", "planner/planned_join.py",
           'if how in ("semi", "anti") or (unique and not columns):',
           'if how in ("semi", "anti") or not columns:',
           "no-columns brings several"),
    Mutant("unique today is unique for ever", "planner/full_cache.py",
           "unique = manifest.unique or (manifest.longest_run <= 1 and not changes)",
           "unique = manifest.unique or manifest.longest_run <= 1",
           "streaming refresh stored equality"),
    Mutant("a stream is bound to a version", "planner/full_cache.py",
           "version=None if stream.isStreaming else manifest.version",
           "version=manifest.version",
           "streaming refresh stored"),
    Mutant("a refresh is taken for the same rows", "build/storing.py",
           "if before is not None and known.same_as(draft) and", "if before is not None and",
           "refresh stored"),
    Mutant("a fraction of a width is lost", "runtimes/jvm/joins.py",
           'return f"{10 * units + 5}e-1"', "return str(units)",
           "Band point-exact"),
    Mutant("a left join loses long runs without rows", "runtimes/python/driver/keys_only.py",
           'explode = F.explode_outer if plan.how == "left" else F.explode', "explode = F.explode",
           "equality long-runs left"),
    Mutant("a left join loses lists without rows", "runtimes/python/driver/keys_only.py",
           'unroll = F.inline_outer if planned.plan.how == "left" else F.inline',
           "unroll = F.inline",
           "equality several left"),
    # The look-up in the JVM.
    _java("a number without rows is found", "storage/Segment",
          "return row < file.getInt(directory + 4 * bucket + 4) && row < rows ? row : -1;",
          "return row < rows ? row : -1;",
          "integer-key"),
    _java("another hash of the bucket is found", "storage/Segment",
          "return there == hash && row < rows ? row : -1;", "return row < rows ? row : -1;",
          "hashed-key"),
    _java("only the second run of a bucket is read", "storage/Segment",
          "while (there < hash) {", "if (there < hash) {",
          "hashed-key"),
    _java("a run loses its last row", "storage/Segment",
          "int found = end(row) - row;", "int found = Math.max(1, end(row) - row - 1);",
          "equality several brings"),
    _java("the second key of a hash is missing", "storage/Segment",
          "return after < rows && file.getLong(hashes + 8L * after) == hash ? after : -1;",
          "return -1;",
          "one-hash"),
    _java("the greatest row is not found", "storage/Points",
          "if (code > greatest) {", "if (code >= greatest) {",
          "Band|AsOf many|no-keys"),
    _java("above is not below", "storage/Points",
          "return code == Long.MAX_VALUE ? high : notBelow(code + 1, low, high);",
          "return code == Long.MAX_VALUE ? high : notBelow(code, low, high);",
          "Band|AsOf|intervals"),
    _java("above ends at the first equal row", "storage/Points",
          "return descend(code + 1, passed, high);", "return descend(code, passed, high);",
          "Band|strictly"),
    _java("the last of equal rows is taken", "storage/Points",
          "return row == low || value(row - 1) != value ? row : notBelow(value, low, high);",
          "return row;",
          "looks-back many|no-keys"),
    _java("of intervals that start alike the last one", "lookup/ChosenFinder",
          "intervals.next(points.firstOfEquals(row, begin, end), stop, last)", "row",
          "take-latest_start brings"),
    _java("of intervals that are alike the last one", "lookup/ChosenFinder",
          "intervals.place(row) < intervals.place(best)",
          "intervals.place(row) > intervals.place(best)",
          "takes brings"),
    _java("an interval without an end is short", "lookup/ChosenFinder",
          "if (isEndless) {", "if (isEndless && false) {",
          "take-shortest brings"),
    _java("a band is closed on the left", "planner/RangeLookup",
          'boolean left = closed.equals("both") || closed.equals("left");', "boolean left = true;",
          "Band closed-right|closed-neither"),
    _java("a band is closed on the right", "planner/RangeLookup",
          'boolean right = closed.equals("both") || closed.equals("right");',
          "boolean right = true;",
          "Band closed-left|closed-neither"),
    _java("exact=False is ignored backward", "planner/RangeLookup",
          "upper = bound(join, point, false, exact, BigDecimal.ZERO);",
          "upper = bound(join, point, false, true, BigDecimal.ZERO);",
          "strictly backward"),
    _java("exact=False is ignored forward", "planner/RangeLookup",
          "lower = bound(join, point, true, exact, BigDecimal.ZERO);",
          "lower = bound(join, point, true, true, BigDecimal.ZERO);",
          "strictly forward"),
    _java("exact=False is ignored by the nearest row", "lookup/NearestFinder",
          "if (met && exact) {", "if (met) {",
          "strictly nearest"),
    _java("of several nearest rows those with equal points are left out", "lookup/NearestFinder",
          "points.value(before + 1) == points.value(before)", "false",
          "n-nearest looks-back many|no-keys"),
    _java("one row more than n", "lookup/NearestFinder", "if (count == most) {",
          "if (count > most) {",
          "n-nearest many|no-keys"),
    _java("of equally near rows the later one", "lookup/NearestFinder",
          "Long.compareUnsigned(more, less) < 0", "Long.compareUnsigned(more, less) <= 0",
          "nearest point-exact|point-date|point-timestamp|point-timestamp_ntz"),
    _java("of equally near doubles the later one", "lookup/NearestFinder",
          "return ahead < back;", "return ahead <= back;",
          "nearest point-floating"),
    _java("NaN has a distance", "lookup/RangeBound", "if (near && Double.isNaN(value)) {",
          "if (near && Double.isNaN(value) && false) {",
          "AsOf nan tolerance"),
    _java("beyond the limits is far from them", "lookup/RangeBound",
          "return clamped(exact(value));", "return exact(value).longValue();",
          "limits Band|tolerance"),
    _java("a band overflows", "lookup/RangeBound",
          "return value <= safe && value >= -safe;", "return safe >= 0;",
          "limits Band|tolerance"),
    _java("finer digits of a band are lost", "lookup/RangeBound",
          "lower ? added.add(unit).subtract(BigInteger.ONE) : added;", "added;",
          "finer Band|tolerance"),
    _java("-0.0 is below 0.0 in ranges", "storage/Code",
          "Double.doubleToLongBits(value + 0.0)", "Double.doubleToLongBits(value)",
          "zeros"),
    _java("an interval behind the range is found", "storage/Intervals",
          "int last = stop - 1 >>> BITS * level;", "int last = stop >>> BITS * level;",
          "intervals many|no-keys"),
    _java("keys of one hash are equal", "lookup/Finder", "if (!same) {", "if (!same && row < 0) {",
          "one-hash"),
    _java("a start at the limit of a range belongs to it", "lookup/RangeFinder",
          "points.above(high, begin, end)", "points.notBelow(high, begin, end)",
          "intervals"),
    _java("a limit between two negative codes is that above", "lookup/RangeBound",
          "Math.floorDiv(code, per)", "code / per",
          "finer between negative Band|intervals"),
    _java("an empty interval of the stream matches", "planner/RangeLookup",
          "upper = new If(empty, new Literal(null, upper.dataType()), upper);", "",
          "Overlaps"),
    _java("a null is a zero", "lookup/Read",
          '(hasNulls ? " || " + column', '(mayMiss ? " || " + column',
          "nulls brings inner stored|private"),
    _java("an outer join loses rows without a match", "lookup/LookupCode",
          '" || !" + any : "")', '"" : "")',
          "left several equality jvm"),
    _java("a semi join is an anti join", "lookup/LookupCode",
          'text.append("if (" + found + " < 0L) {\\n");',
          'text.append("if (" + found + " >= 0L) {\\n");',
          "anti jvm"),
    _java("the last row of a key is lost", "lookup/Finder", "end = first + count;",
          "end = first + Math.max(1, count - 1);",
          "equality several brings"),
    _java("a replay uses the newest version", "storage/Table",
          "if (manifest.activatesAtUs <= timeUs) {",
          "if (manifest.activatesAtUs <= timeUs + (1L << 60)) {",
          "streaming replay-after-refresh stored"),
    _java("new versions are never read", "storage/Table",
          "    read(); //", "    if (known.isEmpty()) read(); //",
          "streaming refresh stored"),
    _java("long decimals lose their high word", "storage/Column",
          "BigInteger.valueOf(high).shiftLeft(64)", "BigInteger.ZERO.shiftLeft(64)",
          "brings-exact"),
    _java("the nulls of four rows", "storage/Column", "(row & 7) & 1) == 0", "(row & 3) & 1) == 0",
          "nulls brings"),
)  # fmt: skip
"""The faults. What changes no answer is none: the partition of a row, the order of evictions."""


def main() -> int:
    """Run the fuzz with each fault; 1 if one of them is not found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.mutants", description=__doc__)
    parser.add_argument("--only", nargs="*", default=[], help="numbers, or parts of names")
    parser.add_argument("--minutes", type=float, default=2, help="for each; default 2")
    parser.add_argument(
        "--results", type=Path, help="a file of what was found; those it has are left out"
    )
    arguments = parser.parse_args()
    results: dict[str, Any] = {}
    path = None if arguments.results is None else arguments.results.resolve()
    if path is not None and path.exists():
        results = json.loads(path.read_text())
    missed, session = 0, FaultySession()
    for number, mutant in enumerate(MUTANTS):
        names = arguments.only
        if names and not any(int(n) == number if n.isdigit() else n in mutant.name for n in names):
            continue
        if not names and mutant.name in results:
            continue
        begun = time.monotonic()
        text = mutant.applied((_ROOT / "bsjoin" / mutant.file).read_text())
        try:
            found, told = session.run(mutant.file, text, arguments.minutes, mutant.needs)
        except HarnessError as error:  # not in the results: it is tried again
            print(f"{number:3} BROKEN {mutant.name}: {error}", flush=True)
            missed += 1
            continue
        spent = time.monotonic() - begun
        verdict = "found" if found else "MISSED"
        print(f"{number:3} {verdict} {spent:5.0f} s {mutant.name}: {told}", flush=True)
        missed += not found
        results[mutant.name] = {"found": found, "after": told.split(";")[0]}
        if path is not None:
            path.write_text(json.dumps(results, indent=1) + "\n")
    print(f"{missed} missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
