"""Clusters and jobs from a YAML file, for ``python -m scheduling``.

::

    delta: 0.8                                  # of every worker that says nothing else
    prices:                                     # the first pattern that matches counts
      - {pattern: "m*", tier: m, price_per_s: 0.002417, slots: 4, cpu_cores: 4, memory_mb: 8192}
      - {pattern: "*", tier: l, price_per_s: 0.004861, slots: 4, cpu_cores: 8, memory_mb: 12288}
    workers:                                    # names, or names with what is known of them
      - m2
      - {id: l1, host: 10.0.0.4, tuples: 1000000, cost: 2.1, cpu: 0.5, memory: 0.4, busyness: 0.3}
      - {id: l2, reserved: {slots: 1, cpu_cores: 2, memory_mb: 4096}}       # what others take
    operators:
      - {name: map, parallelism: 4, cpu_cores: 0.5, memory_mb: 512, to: {sink: 1000000}}
      - {name: sink, parallelism: 2, cpu_cores: 0.5, memory_mb: 512, preferred: [m2]}
    cost: {price_per_byte: 1.0e-12, weights: [0.5, 0.3, 0.2]}

``to`` gives, by operator, the bytes a second that go there altogether; they are shared evenly by
all pairs of tasks. Numbers of an operator are those of one task.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from scheduling.cluster_fields import count_of, fields_of, list_of, number_of, resources_of
from scheduling.cost import CostModel
from scheduling.errors import ArgumentError, ClusterFileError
from scheduling.model import (
    Edge,
    JobGraph,
    Reserved,
    Snapshot,
    Task,
    Utilisation,
    Worker,
)
from scheduling.prices import Price, priced

__all__ = ["Cluster", "parse", "read", "read_prices"]

_TOP = ("delta", "prices", "workers", "operators", "cost")
_PRICE = ("pattern", "tier", "price_per_s", "slots", "cpu_cores", "memory_mb", "disk_mb")
_WORKER = [
    "id",
    "host",
    "executor_id",
    "tier",
    "price_per_s",
    "slots",
    "cpu_cores",
    "memory_mb",
    "disk_mb",
    "delta",
    "bandwidth_bytes_per_s",
    "latency_s",
    "tuples",
    "cost",
    "cpu",
    "memory",
    "busyness",
    "reserved",
]
_OPERATOR = [
    "name",
    "parallelism",
    "cpu_cores",
    "memory_mb",
    "disk_mb",
    "rate_in_per_s",
    "state_bytes",
    "preferred",
    "input_bytes",
    "input_bytes_per_s",
    "to",
]
_RESERVED = ("slots", "cpu_cores", "memory_mb", "disk_mb")
_COST = ("price_per_byte", "weights")


@dataclass(frozen=True)
class Cluster:
    """What a cluster file says: the workers and what is known of them, the job, the prices."""

    snapshot: Snapshot
    graph: JobGraph
    cost: CostModel = field(default_factory=CostModel)


def read(path: str | Path) -> Cluster:
    """Read a cluster file.

    Args:
        path: of a YAML file, in the form that this module begins with.

    Raises:
        ClusterFileError: it is not there, is no YAML, or says something that cannot be used.
        ImportError: PyYAML is not installed; ``pip install bsjoin[scheduling]``.
    """
    content = _content(path)
    try:
        return parse(content)
    except ArgumentError as error:
        raise ClusterFileError(f"{path}: {error}") from error


def read_prices(path: str | Path) -> tuple[Price, ...]:
    """Read the price table of a cluster file, which may hold nothing else.

    Args:
        path: of a YAML file with ``prices:``, in the form that this module begins with.

    Raises:
        ClusterFileError: it is not there, is no YAML, or its prices cannot be used.
        ImportError: PyYAML is not installed; ``pip install bsjoin[scheduling]``.
    """
    content = _content(path)
    try:
        top = fields_of(content, _TOP, "the file", need=("prices",))
        return tuple(_price(row, k) for k, row in enumerate(list_of(top["prices"], "prices")))
    except ArgumentError as error:
        raise ClusterFileError(f"{path}: {error}") from error


def parse(content: Any) -> Cluster:
    """The cluster that the content of a file describes.

    Args:
        content: mappings, lists, numbers and texts, in the form that this module begins with.

    Raises:
        ClusterFileError: a name is unknown or missing, or a value is of another kind.
        ArgumentError: a value is out of its range.
    """
    top = fields_of(content, _TOP, "the file", need=("workers", "operators"))
    delta = number_of(top.get("delta", 0.8), "delta")
    table = [_price(row, k) for k, row in enumerate(list_of(top.get("prices", []), "prices"))]
    entries = [_worker(row, k) for k, row in enumerate(list_of(top["workers"], "workers"))]
    workers = []
    for entry in entries:
        known = {name: entry[name] for name in _WORKER[:4] if name in entry}
        known |= {
            name: number_of(entry[name], f"{name} of worker {entry['id']!r}")
            for name in ("price_per_s", "delta", "bandwidth_bytes_per_s", "latency_s")
            if name in entry
        }
        known.setdefault("delta", delta)
        where = f"of worker {entry['id']!r}"
        bare = Worker(
            capacity=resources_of(entry, where),
            slots=count_of(entry.get("slots", 0), f"slots {where}"),
            **known,
        )
        # The worker's own values take precedence over the table.
        row = priced([bare], table)[0] if table and "price_per_s" not in entry else bare
        said = {"cpu_cores", "memory_mb"} & set(entry)
        slots = bare.slots if "slots" in entry else row.slots
        capacity = bare.capacity if said else row.capacity
        if not slots or not capacity.cpu_cores or not capacity.memory_mb:
            raise ClusterFileError(
                f"worker {bare.id!r} has {slots} slots, {capacity.cpu_cores:g} cores and "
                f"{capacity.memory_mb:g} MB; give slots, cpu_cores and memory_mb, there or in a "
                "row of prices"
            )
        known |= {"price_per_s": row.price_per_s, "tier": known.get("tier", row.tier)}
        workers.append(Worker(capacity=capacity, slots=slots, **known))
    cost = fields_of(top.get("cost", {}), _COST, "cost")
    weights = [
        number_of(one, "weights") for one in list_of(cost.get("weights", [1, 0, 0]), "weights")
    ]
    if "weights" not in cost:
        weights = list(CostModel().weights)
    model = CostModel(
        weights=tuple(weights),  # type: ignore[arg-type]  # CostModel checks that there are three
        price_per_byte=number_of(cost.get("price_per_byte", 0.0), "price_per_byte"),
    )
    found = Cluster(_snapshot(tuple(workers), entries), _graph(top["operators"]), model)
    for name, given in (("workers", workers), ("operators", found.graph.tasks)):
        if not given:
            raise ClusterFileError(f"there are no {name}: give one or more")
    return found


def _snapshot(workers: tuple[Worker, ...], entries: Iterable[Mapping[str, Any]]) -> Snapshot:
    by_field: dict[str, dict[str, float]] = {}
    reserved: dict[str, Reserved] = {}
    for entry in entries:
        if "reserved" in entry:
            taken = fields_of(entry["reserved"], _RESERVED, f"reserved of worker {entry['id']!r}")
            where = f"reserved of worker {entry['id']!r}"
            slots = count_of(taken.get("slots", 0), f"slots {where}")
            reserved[entry["id"]] = Reserved(slots, resources_of(taken, where))
        for name in ("tuples", "cost", "busyness", "cpu", "memory"):
            if name in entry:
                value = number_of(entry[name], f"{name} of worker {entry['id']!r}")
                by_field.setdefault(name, {})[entry["id"]] = value
    memory = by_field.get("memory", {})
    return Snapshot(
        0.0,
        workers,
        utilisation={
            name: Utilisation(cpu, memory.get(name, 0.0))
            for name, cpu in by_field.get("cpu", {}).items()
        },
        tuples=by_field.get("tuples", {}),
        cost=by_field.get("cost", {}),
        busyness=by_field.get("busyness", {}),
        reserved=reserved,
    )


def _graph(content: Any) -> JobGraph:
    tasks: list[Task] = []
    rows = [
        fields_of(row, _OPERATOR, f"operators[{k}]", need=("name",))
        for k, row in enumerate(list_of(content, "operators"))
    ]
    counts = {
        str(row["name"]): count_of(
            row.get("parallelism", 1), f"parallelism of operator {row['name']!r}", least=1
        )
        for row in rows
    }
    edges: list[Edge] = []
    for row in rows:
        name = str(row["name"])
        optional: dict[str, Any] = {
            key: number_of(row[key], f"{key} of operator {name!r}")
            for key in ("rate_in_per_s", "state_bytes", "input_bytes", "input_bytes_per_s")
            if key in row
        }
        preferred = tuple(str(one) for one in list_of(row.get("preferred", []), "preferred"))
        kind = replace(
            Task(name, name, 0, resources_of(row, f"of operator {name!r}"), preferred=preferred),
            **optional,
        )
        tasks += [replace(kind, id=f"{name}-{i}", index=i) for i in range(counts[name])]
        targets = row.get("to", {})
        if not isinstance(targets, Mapping):
            raise ClusterFileError(f"to of operator {name!r} is {targets!r}: give {{name: bytes}}")
        for target, total in targets.items():
            if target not in counts:
                raise ClusterFileError(
                    f"operator {name!r} sends to {target!r}, which is no operator; there are "
                    f"{', '.join(map(repr, counts))}"
                )
            share = number_of(total, f"to {target!r} of operator {name!r}") / (
                counts[name] * counts[target]
            )
            edges += [
                Edge(f"{name}-{i}", f"{target}-{j}", share)
                for i in range(counts[name])
                for j in range(counts[target])
            ]
    _acyclic({str(row["name"]): list(row.get("to", {})) for row in rows})
    return JobGraph(tuple(tasks), tuple(edges))


def _acyclic(targets: Mapping[str, list[str]]) -> None:
    """Refuse operators that send to themselves, directly or through others."""
    done: set[str] = set()
    path: list[str] = []

    def visit(name: str) -> None:
        if name in path:
            cycle = " -> ".join([*path[path.index(name) :], name])
            raise ClusterFileError(
                f"the operators form a cycle, {cycle}: a job is a directed acyclic graph; remove "
                "one of these `to` entries"
            )
        if name not in done:
            path.append(name)
            for other in targets[name]:
                visit(other)
            path.pop()
            done.add(name)

    for name in targets:
        visit(name)


def _price(row: Any, k: int) -> Price:
    known = fields_of(row, _PRICE, f"prices[{k}]", need=("pattern", "price_per_s"))
    sized = {"cpu_cores", "memory_mb"} & set(known)
    where = f"of prices[{k}]"
    return Price(
        str(known["pattern"]),
        number_of(known["price_per_s"], f"price_per_s {where}"),
        count_of(known["slots"], f"slots {where}") if "slots" in known else None,
        str(known["tier"]) if "tier" in known else None,
        resources_of(known, where) if sized else None,
    )


def _worker(row: Any, k: int) -> dict[str, Any]:
    if isinstance(row, str):
        return {"id": row}
    known = dict(fields_of(row, _WORKER, f"workers[{k}]", need=("id",)))
    for name in ("id", "host", "executor_id", "tier"):
        if name in known:
            known[name] = str(known[name])
    return known


def _content(path: str | Path) -> Any:
    """What a YAML file says."""
    try:
        import yaml
    except ImportError as error:
        raise ImportError(
            "cluster files are YAML, and PyYAML is not installed: pip install 'bsjoin[scheduling]'"
        ) from error
    try:
        text = Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ClusterFileError(f"{path}: cannot be read: {error}. Give a YAML file") from error
    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ClusterFileError(f"{path}: is no YAML: {error}") from error
    return content
