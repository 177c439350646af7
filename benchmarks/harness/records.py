"""Records of runs: one JSON file a benchmark and size, written whole or not at all."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.harness.machine import machine, versions
from benchmarks.harness.outcome import Benchmark, Figure, Outcome

__all__ = [
    "SCHEMA",
    "Record",
    "RecordError",
    "figures_of",
    "folder",
    "made",
    "place",
    "plain",
    "read",
    "read_all",
    "read_any",
    "repeats",
    "size_of",
    "write",
    "written",
]

SCHEMA = 1
"""The version of the records' form; a reader refuses a newer one."""

Record = dict[str, Any]


class RecordError(Exception):
    """A file that is no record, or one that this program is too old to read."""


def size_of(quick: bool) -> str:
    """``quick`` or ``full``."""
    return "quick" if quick else "full"


def folder(out: Path, quick: bool) -> Path:
    """Where the records and pictures of a size are."""
    return out / "results" / size_of(quick)


def place(out: Path, quick: bool, name: str) -> Path:
    """The file of a benchmark's record."""
    return folder(out, quick) / f"{name}.json"


def made(
    benchmark: Benchmark,
    *,
    quick: bool,
    seed: int,
    out: Path,
    code: str | None,
    seconds: float,
    outcome: Outcome | None = None,
    error: str | None = None,
) -> Record:
    """The record of a run that ended now.

    Args:
        benchmark: what was run.
        quick: its size.
        seed: of all that was drawn.
        out: the folder of all results; pictures are noted relative to the size's folder in it.
        code: the state of the code when it began.
        seconds: how long it took.
        outcome: what it found; None when it failed.
        error: why it failed.

    Raises:
        ValueError: a figure that is no number; there is nothing to compare it with.
    """
    outcome = outcome or Outcome()
    for figure in outcome.figures:
        if not math.isfinite(figure.value):
            raise ValueError(
                f"{benchmark.name}: the figure {figure.name!r} is {figure.value}, and a figure is "
                "a finite number: leave it out, or count what makes it so"
            )
    pictures = [os.path.relpath(picture, folder(out, quick)) for picture in outcome.pictures]
    record = {
        "schema": SCHEMA,
        "name": benchmark.name,
        "group": benchmark.group,
        "title": benchmark.title,
        "about": benchmark.about,
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 1),
        "command": f"python -m benchmarks run {benchmark.name} --{size_of(quick)} --seed {seed}",
        "quick": quick,
        "seed": seed,
        "commit": code,
        "machine": machine(),
        "versions": versions(),
        "figures": [figure.to_json() for figure in outcome.figures],
        "tables": [
            {"title": t.title, "columns": t.columns, "rows": t.rows, "note": t.note}
            for t in outcome.tables
        ],
        "pictures": pictures,
        "measured": outcome.measured,
        "error": error,
    }
    return plain(record)  # type: ignore[no-any-return]


def plain(value: Any) -> Any:
    """The same as JSON can hold it: numpy's numbers as numbers, what is not finite as None."""
    if isinstance(value, dict):
        return {key if isinstance(key, str) else str(key): plain(v) for key, v in value.items()}
    if isinstance(value, list | tuple | set):
        return [plain(one) for one in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | int) else str(value)


def write(file: Path, content: Any) -> None:
    """Write JSON under another name first, so that a reader finds the old content or the new."""
    file.parent.mkdir(parents=True, exist_ok=True)
    rough = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        rough.write_text(json.dumps(content, indent=1, allow_nan=False), "utf-8")
        os.replace(rough, file)
    finally:
        rough.unlink(missing_ok=True)


def read(file: Path) -> Record:
    """The record in a file.

    Raises:
        RecordError: it is none, or a newer program wrote it.
    """
    found = _loaded(file)
    if isinstance(found, list):
        raise RecordError(f"{file} holds {len(found)} records and one was expected")
    return _checked(found, file)


def read_any(source: Path) -> list[Record]:
    """The records of a baseline: a file with one or with a list of them, or a folder of files.

    Raises:
        RecordError: there is no such file, or a record in it cannot be read.
    """
    if source.is_dir():
        found = [read(file) for file in sorted(source.glob("*.json"))]
        if not found:
            raise RecordError(
                f"{source} has no records: name a folder like out/benchmarks/results/quick"
            )
        return found
    loaded = _loaded(source)
    return [_checked(one, source) for one in (loaded if isinstance(loaded, list) else [loaded])]


def read_all(out: Path, quick: bool, names: Iterable[str]) -> list[Record]:
    """The records of a size that there are, in the order of the names, others after them."""
    here = {file.stem: file for file in sorted(folder(out, quick).glob("*.json"))}
    ordered = [name for name in names if name in here]
    return [read(here[name]) for name in dict.fromkeys([*ordered, *here])]


def written(out: Path, quick: bool, name: str) -> Record | None:
    """The record of a benchmark, if there is one."""
    file = place(out, quick, name)
    return read(file) if file.exists() else None


def _loaded(file: Path) -> Any:
    try:
        return json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        raise RecordError(f"there is no {file}") from None
    except (ValueError, OSError) as error:
        raise RecordError(
            f"{file} cannot be read as JSON ({error}): remove it and run the benchmark again"
        ) from error


def _checked(record: Any, file: Path) -> Record:
    schema = record.get("schema") if isinstance(record, dict) else None
    if not isinstance(schema, int) or "figures" not in record or "name" not in record:
        raise RecordError(
            f"{file} holds no record of a benchmark: remove it, or name a file that "
            "`python -m benchmarks run` or `baseline` has written"
        )
    if schema > SCHEMA:
        raise RecordError(
            f"{file} has version {schema} of the records' form and this program reads up to "
            f"{SCHEMA}: use a newer bsjoin, or run the benchmark again with this one"
        )
    return record  # type: ignore[no-any-return]


def repeats(record: Record | None, quick: bool, seed: int, code: str | None) -> bool:
    """Whether running again would only repeat a record.

    Args:
        record: the one there is.
        quick: the size asked for.
        seed: the seed asked for.
        code: the state of the code as it is.
    """
    return (
        record is not None
        and record["error"] is None
        and (record["quick"], record["seed"], record["commit"]) == (quick, seed, code)
        and record["versions"] == versions()
    )


def figures_of(record: Record) -> list[Figure]:
    """The figures of a record."""
    known = Figure.__dataclass_fields__
    found = []
    for one in record["figures"]:
        fields = {name: value for name, value in one.items() if name in known}
        if fields.get("spread"):
            fields["spread"] = tuple(fields["spread"])
        found.append(Figure(**fields))
    return found
