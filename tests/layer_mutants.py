"""Deliberate faults in the layers of tables that change: joins of such tables have to find them.

``python -m tests.mutants --only layers --suite tests/storage/test_layers.py
tests/test_changed_tables.py tests/jvm/test_keys_ahead.py`` puts each into a copy of the checkout.
One of compactions is found by the first file alone, those of many keys in the JVM by the last.
"""

from __future__ import annotations

from tests.fuzz.mutants import Mutant

_VERSION, _BITS = (
    f"runtimes/jvm/java/bsjoin/jvm/storage/{name}.java" for name in ("Version", "KeyBits")
)
_OVERLAY, _APPLYING, _COMPACTING = (
    f"storage/layers/{name}.py" for name in ("overlay", "applying", "compacting")
)

LAYER_MUTANTS = [
    Mutant(f"layers: {name}", file, old, new)
    for name, file, old, new in (
        # Finding keys, in Python.
        ("a key that is gone is found below", _OVERLAY,
         "found[left[there]] = _GONE if", "found[left[there]] = _NOWHERE if"),
        ("the oldest layer counts", _OVERLAY,
         "for segment, first in self._segments:\n            indices",
         "for segment, first in reversed(self._segments):\n            indices"),
        ("in the index of all a key that is gone has rows", _OVERLAY,
         "rows.append(np.full(len(starts), _GONE) if first == _GONE else starts + first)",
         "rows.append(starts + max(first, 0))"),
        ("in the index of all the oldest rows count", _OVERLAY,
         "return known, np.concatenate(rows).take(known.places)",
         "return known, np.concatenate(rows[::-1]).take(known.places)"),
        ("integers are told by themselves, not by their hashes", _OVERLAY,
         "hashes = row_hashes(segment)\n        slots =",
         "hashes = segment.index.hashes[:-1]\n        slots ="),
        ("of negative hashes none is told", _OVERLAY,
         "return [slots[negative:], slots[:negative]]", "return [slots[negative:]]"),
        ("a row that was replaced is shown if its key has rows", "storage/open_table.py",
         "return np.repeat(found == own,", "return np.repeat(found >= 0,"),
        # Changes become layers.
        ("a key that is gone is marked only where something below has it", _APPLYING,
         "        if not absorbed:\n", "        if True:\n"),
        ("keys that were gone come back with an absorbed layer", _APPLYING,
         "for one in (layer.rows, layer.gone) if one", "for one in (layer.rows,) if one"),
        ("absorbed layers take what has changed back", _APPLYING,
         "return found.chosen(touched.find(found.hashes, found.keys) < 0)",
         "return found.chosen(touched.find(found.hashes, found.keys) < 1)"),
        ("a late change counts", _APPLYING,
         "counts = order[:n] >= latest.take(groups[:n])", "counts = order[:n] > -1"),
        ("a row whose key has moved stays where it was", _APPLYING,
         "if self._identity and not set(self._on) <= set(self._identity):",
         "if self._identity and not self._on:"),
        ("rows that match nothing stay", "storage/layers/apart.py",
         "stays[gone] = False", "stays[:0] = False"),
        ("a change of a row that matches nothing is passed over", _APPLYING,
         "if not len(places) and not len(gone):", "if not len(places):"),
        # Compaction.
        ("what was absorbed meanwhile is lost", _COMPACTING,
         "layer for layer in now.layers if layer not in before.layers)",
         "layer for layer in now.layers[len(before.layers) :])"),
        ("a segment without new rows stays as it was", _COMPACTING,
         "if visible.all() and not any(", "if not any("),
        ("the last hash of a segment is left out", _COMPACTING,
         "(self.hashes >= first) & (self.hashes <= last)",
         "(self.hashes >= first) & (self.hashes < last)"),
        # Finding keys, in the JVM.
        ("JVM: an integer that is gone is found below", _VERSION,
         "return ifPresent(found);\n      }\n    }\n    if (bases",
         "if (ifPresent(found) != MISSING) return found;\n      }\n    }\n    if (bases"),
        ("JVM: a hash that is gone is found below", _VERSION,
         "return manifest.compared.length == 0 ? ifPresent(found) : found;",
         "if (ifPresent(found) != MISSING) return found;"),
        ("JVM: of many keys none is searched in layers", _VERSION,
         "if (changed != null) {\n      findChanged(", "if (count < 0) {\n      findChanged("),
        ("JVM: of many keys those that are gone are found below", _VERSION,
         "        if (newest != MISSING) {\n", "        if (ifPresent(newest) != MISSING) {\n"),
        ("JVM: the oldest layer counts", _VERSION,
         "for (int i = place; i < above.length; i++) {",
         "for (int i = above.length - 1; i >= place; i--) {"),
        ("JVM: integers are told by their hashes", _BITS,
         "mixed(areIntegers ? segment.key(row) : segment.hash(row))", "mixed(segment.hash(row))"),
        ("JVM: below a layer nothing has the hash of another key", _VERSION,
         "return below == MISSING ? inBase(hash, hash) : below;", "return below;"),
        ("JVM: of the keys of one hash the first is hidden in scans", _VERSION,
         "while (at >= 0 && !below.hasKeyOf(at, segment, row)) {\n      at = below.next(at, hash);",
         "while (at >= 0 && at < 0) {\n      at = below.next(at, hash);"),
        ("JVM: layers hide no rows of layers in scans", _VERSION,
         "if (above[i] < present) {", "if (above[i] < 0) {"),
    )
]  # fmt: skip
