"""What the report derives from records: which are shown, losses, facts about the machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchmarks.harness.outcome import Figure
from benchmarks.harness.records import Record, size_of

GROUPS = {
    "engine": "The join engine",
    "paper": "The paper's experiments",
    "scheduling": "Scheduling",
}


def chosen(records: Sequence[Record]) -> list[Record]:
    """One record per benchmark: full before quick, then the latest; in the order of the report."""
    ranked = sorted(records, key=lambda one: (not one.quick, one.when))
    best = {one.name: one for one in ranked}  # the last of a name
    listed = [best[name] for name in dict.fromkeys(one.name for one in records)]
    return [record for _, of_group in grouped(listed) for record in of_group]


def grouped(records: Iterable[Record]) -> list[tuple[str, list[Record]]]:
    """The records by the title of their group, in the order of the report."""
    by_group: dict[str, list[Record]] = {title: [] for title in GROUPS.values()}
    for record in records:
        by_group.setdefault(GROUPS.get(record.group, record.group.capitalize()), []).append(record)
    return [(group, found) for group, found in by_group.items() if found]


def losses(records: Iterable[Record]) -> list[tuple[Record, Figure]]:
    """Every missed figure, and every ratio below 1 where more is better, with its record.

    Missed ones come first, the farthest from their bounds before the others.
    """
    found = [
        (record, figure)
        for record in records
        for figure in record.figures
        if not figure.reached or not (figure.at_most or figure.unit or figure.value >= 1)
    ]
    return sorted(
        found, key=lambda one: (one[1].reached, one[1].value if one[1].reached else one[1].margin)
    )


def sizes(records: Sequence[Record]) -> str:
    """``quick``, ``full``, or how many are which."""
    quick = sum(record.quick for record in records)
    if quick in (0, len(records)):
        return size_of(quick > 0)
    return f"{len(records) - quick} full, {quick} quick"


def command(records: Sequence[Record]) -> str:
    """The command that measures all of these again."""
    return f"python -m benchmarks all --{'quick' if sizes(records) == 'quick' else 'full'}"


def code(record: Record) -> str:
    """The short commit, and whether there were changes on top; empty if unknown."""
    commit = record.commit or ""
    return commit[:12] + " with changes" * ("+" in commit)


def machine(record: Record) -> str:
    """The machine in a line: processor, cores, memory, Python, Java."""
    has = record.machine
    parts = [has["cpu"] or has["machine"], f"{has['cores']} cores", f"{has['memory_gb']:.0f} GB"]
    parts += [f"{name.capitalize()} {has[name]}" for name in ("python", "java") if has[name]]
    return ", ".join(parts)


def versions(records: Iterable[Record]) -> dict[str, str]:
    """The versions of every package, ``a/b`` where records differ."""
    pairs = sorted({pair for record in records for pair in record.versions.items()})
    return {name: "/".join(v for n, v in pairs if n == name) for name, _ in pairs}
