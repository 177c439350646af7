"""Records of runs: one JSON file per benchmark and size, written atomically."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, is_dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.harness.machine import machine, versions
from benchmarks.harness.outcome import Benchmark, Figure, Outcome, Table


class RecordError(Exception):
    """A file that holds no record of this program."""


@dataclass(frozen=True)
class Record:
    """What is kept of a run: of its benchmark, of its outcome, and where and when it was.

    ``pictures`` are relative to the folder of the records, ``error`` is the traceback if it failed,
    ``commit`` the state of the code, and ``when`` in UTC.
    """

    name: str
    group: str
    title: str
    about: str
    quick: bool
    seed: int
    commit: str | None
    seconds: float
    error: str | None = None
    figures: list[Figure] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    pictures: list[str] = field(default_factory=list)
    measured: Any = None
    when: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    machine: dict[str, Any] = field(default_factory=machine)
    versions: dict[str, str] = field(default_factory=versions)

    @property
    def command(self) -> str:
        """The command that repeats the run."""
        size = size_of(self.quick)
        return f"python -m benchmarks run {self.name} --{size} --seed {self.seed}"


def size_of(quick: bool) -> str:
    """``quick`` or ``full``."""
    return "quick" if quick else "full"


def folder(out: Path, quick: bool) -> Path:
    """Where the records and pictures of a size are."""
    return out / "results" / size_of(quick)


def store(
    benchmark: Benchmark, out: Path, outcome: Outcome, pictures: Sequence[str] = (), **run: Any
) -> Record:
    """Write the record of a run that has just ended; ``run`` has its other fields.

    Raises:
        ValueError: a figure that is not finite, with which nothing can be compared, or two of one
            name, of which one would be lost.
    """
    names = Counter(figure.name for figure in outcome.figures)
    if twice := [name for name, count in names.items() if count > 1]:
        raise ValueError(f"{benchmark.name}: figures are told apart by their names: {twice}")
    for figure in outcome.figures:
        if not math.isfinite(figure.value):
            raise ValueError(
                f"{benchmark.name}: the figure {figure.name!r} is {figure.value}, and a figure is "
                "a finite number: leave it out, or count what makes it so"
            )
    place = folder(out, run["quick"])
    found = Record(
        benchmark.name, benchmark.group, benchmark.title, benchmark.about, **run,
        figures=outcome.figures, tables=[replace(table, charts=()) for table in outcome.tables],
        pictures=list(pictures), measured=outcome.measured,
    )  # fmt: skip
    write(place / f"{benchmark.name}.json", found)
    return found


def plain(value: Any) -> Any:
    """The same for JSON: numpy's numbers as Python's, what is not finite as None."""
    if is_dataclass(value):
        value = vars(value)
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set):
        return [plain(one) for one in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | int) else str(value)


def write(file: Path, content: Any) -> None:
    """Write JSON atomically: a reader finds the old content or the new."""
    text = json.dumps(plain(content), indent=1)
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        temporary.write_text(text, "utf-8")
        os.replace(temporary, file)
    finally:
        temporary.unlink(missing_ok=True)


def read(file: Path) -> Record:
    """The record in a file.

    Raises:
        RecordError: there is no such file, or it holds no record of this format.
    """
    try:
        return _record(json.loads(file.read_text("utf-8")))
    except FileNotFoundError:
        raise RecordError(f"there is no {file}") from None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise RecordError(
            f"{file} holds no record of this version ({error!r}): remove it, and run the "
            "benchmark again"
        ) from error


def _record(loaded: Any) -> Record:
    figures, tables = map(figure, loaded["figures"]), (Table(**one) for one in loaded["tables"])
    return Record(**{**loaded, "figures": list(figures), "tables": list(tables)})


def figure(fields: dict[str, Any]) -> Figure:
    """A figure from JSON."""
    ends = fields.get("spread")
    return Figure(**{**fields, "spread": tuple(ends) if ends and None not in ends else None})


def read_all(out: Path, quick: bool, names: Iterable[str]) -> list[Record]:
    """All records of a size, in the order of the names, others after them."""
    here = {file.stem: file for file in sorted(folder(out, quick).glob("*.json"))}
    ordered = [name for name in names if name in here]
    return [read(here[name]) for name in dict.fromkeys([*ordered, *here])]


def written(out: Path, quick: bool, name: str) -> Record | None:
    """The record of a benchmark; None if there is none that this program can read."""
    with suppress(RecordError):
        return read(folder(out, quick) / f"{name}.json")
    return None


def repeats(record: Record, quick: bool, seed: int, code: str | None) -> bool:
    """Whether another run would only repeat a record; of changed or unknown code nobody knows."""
    return (
        record.error is None
        and not (code or "+").endswith("+")
        and (record.quick, record.seed, record.commit) == (quick, seed, code)
        and (record.versions, record.machine) == (versions(), machine())
    )
