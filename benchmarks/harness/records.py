"""Records of runs: one JSON file per benchmark and size, written atomically."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.harness.machine import machine, versions
from benchmarks.harness.outcome import Benchmark, Figure, Outcome

SCHEMA = 1
"""The version of the format; a reader refuses a newer one."""

Record = dict[str, Any]


class RecordError(Exception):
    """A file that is no record, or one of a newer format."""


def size_of(quick: bool) -> str:
    """``quick`` or ``full``."""
    return "quick" if quick else "full"


def folder(out: Path, quick: bool) -> Path:
    """Where the records and pictures of a size are."""
    return out / "results" / size_of(quick)


def record_file(out: Path, quick: bool, name: str) -> Path:
    """The file of a benchmark's record."""
    return folder(out, quick) / f"{name}.json"


def build(
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
    """The record of a run that has just ended.

    Raises:
        ValueError: a figure that is not finite; nothing can be compared with it.
    """
    outcome = outcome or Outcome()
    for figure in outcome.figures:
        if not math.isfinite(figure.value):
            raise ValueError(
                f"{benchmark.name}: the figure {figure.name!r} is {figure.value}, and a figure is "
                "a finite number: leave it out, or count what makes it so"
            )
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
            {name: value for name, value in asdict(table).items() if name != "charts"}
            for table in outcome.tables
        ],
        "pictures": [os.path.relpath(file, folder(out, quick)) for file in outcome.pictures],
        "measured": outcome.measured,
        "error": error,
    }
    return plain(record)  # type: ignore[no-any-return]


def plain(value: Any) -> Any:
    """The same for JSON: numpy's numbers as Python's, what is not finite as None."""
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
    """Write JSON atomically: a reader finds the old content or the new."""
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        temporary.write_text(json.dumps(content, indent=1, allow_nan=False), "utf-8")
        os.replace(temporary, file)
    finally:
        temporary.unlink(missing_ok=True)


def read(file: Path) -> Record:
    """The record in a file.

    Raises:
        RecordError: it is none, or a newer program wrote it.
    """
    return _checked(_loaded(file), file)


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
    """All records of a size, in the order of the names, others after them."""
    here = {file.stem: file for file in sorted(folder(out, quick).glob("*.json"))}
    ordered = [name for name in names if name in here]
    return [read(here[name]) for name in dict.fromkeys([*ordered, *here])]


def written(out: Path, quick: bool, name: str) -> Record | None:
    """The record of a benchmark, if there is one."""
    file = record_file(out, quick, name)
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
            f"{file} has version {schema} of the record format and this program reads up to "
            f"{SCHEMA}: use a newer bsjoin, or run the benchmark again with this one"
        )
    return record  # type: ignore[no-any-return]


def repeats(record: Record | None, quick: bool, seed: int, code: str | None) -> bool:
    """Whether another run would only repeat a record."""
    return (
        record is not None
        and record["error"] is None
        and (record["quick"], record["seed"], record["commit"]) == (quick, seed, code)
        and record["versions"] == versions()
    )


def figures_of(record: Record) -> list[Figure]:
    """The figures of a record."""
    found = []
    for one in record["figures"]:
        fields = {name: one[name] for name in Figure.__dataclass_fields__ if name in one}
        if fields.get("spread"):
            fields["spread"] = tuple(fields["spread"])
        found.append(Figure(**fields))
    return found
