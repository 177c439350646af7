"""Clusters and jobs from a YAML file, for ``python -m scheduling``, which prints an example.

A file has ``workers`` and ``operators``, and may have ``delta``, ``prices`` and ``cost``. Workers
are names, or names with what is known of them; the first price whose pattern matches counts. ``to``
gives, by operator, the bytes a second that go there altogether; they are shared evenly by all pairs
of tasks. Numbers of an operator are those of one task.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, TypeVar

from scheduling.cluster_fields import Field
from scheduling.cost import CostModel
from scheduling.errors import ArgumentError, ClusterFileError
from scheduling.model import Edge, JobGraph, Reserved, Snapshot, Task, Utilisation, Worker
from scheduling.model.checks import share
from scheduling.prices import Price, priced

__all__ = ["Cluster", "parse", "read", "read_prices"]

_TOP = "delta prices workers operators cost"
_SIZES = "slots cpu_cores memory_mb disk_mb"
_PRICE = f"pattern tier price_per_s {_SIZES}"
_NETWORK = "bandwidth_bytes_per_s latency_s"
_MEASURED = "tuples cost busyness cpu memory"
_WORKER = f"id host executor_id tier price_per_s delta reserved {_SIZES} {_NETWORK} {_MEASURED}"
_RATES = "rate_in_per_s state_bytes input_bytes input_bytes_per_s"
_OPERATOR = f"name parallelism cpu_cores memory_mb disk_mb preferred to {_RATES}"
_DEEPEST = 6  # names and positions that lead to a value that an error may name

T = TypeVar("T")


@dataclass(frozen=True)
class Cluster:
    """What a cluster file says: the workers and what is known of them, the job, the prices."""

    snapshot: Snapshot
    graph: JobGraph
    cost: CostModel = field(default_factory=CostModel)


def read(path: str | Path) -> Cluster:
    """Read a cluster file.

    Args:
        path: of a YAML file, in the form of ``python -m scheduling example``.

    Raises:
        ClusterFileError: it is not there, is no YAML, or says something that cannot be used; the
            message names the file, the line and the field.
        ImportError: PyYAML is not installed; ``pip install bsjoin[scheduling]``.
    """
    return _read(path, parse)


def read_prices(path: str | Path) -> tuple[Price, ...]:
    """Read the price table of a cluster file, which may hold nothing else.

    Args:
        path: of a YAML file with ``prices:``, in the form of ``python -m scheduling example``.

    Raises:
        ClusterFileError: it is not there, is no YAML, or its prices cannot be used.
        ImportError: PyYAML is not installed; ``pip install bsjoin[scheduling]``.
    """

    def prices(content: Any) -> tuple[Price, ...]:
        top = Field(content).fields(_TOP, need=("prices",))
        return tuple(map(_price, top["prices"].rows()))

    return _read(path, prices)


def parse(content: Any) -> Cluster:
    """The cluster that the content of a file describes.

    Args:
        content: mappings, lists, numbers and texts, as in ``python -m scheduling example``.

    Raises:
        ClusterFileError: a name is unknown or missing, or a value cannot be used.
    """
    file = Field(content)
    top = file.fields(_TOP, need=("workers", "operators"))
    delta = top["delta"].number() if "delta" in top else 0.8
    with file.making():
        share("delta", delta, above=True)
    table = tuple(map(_price, top["prices"].rows())) if "prices" in top else ()
    seen: dict[str, dict[str, Any]] = {name: {} for name in (*_MEASURED.split(), "reserved")}
    workers = [_worker(row, delta, table, seen) for row in top["workers"].rows()]
    _once(top["workers"], "worker", [worker.id for worker in workers])
    graph = _graph(top["operators"])
    cost = _cost(top["cost"]) if "cost" in top else CostModel()
    for name, given in (("workers", workers), ("operators", graph.tasks)):
        if not given:
            raise ClusterFileError(f"there are no {name}: give one or more", (name,))
    memory = seen.pop("memory")
    used = {name: Utilisation(cpu, memory.get(name, 0.0)) for name, cpu in seen.pop("cpu").items()}
    snapshot = Snapshot(0.0, tuple(workers), utilisation=used, **seen)
    return Cluster(snapshot, graph, cost)


def _price(row: Field) -> Price:
    known = row.fields(_PRICE, need=("pattern", "price_per_s"))
    with row.making():
        return Price(
            known["pattern"].text(),
            known["price_per_s"].number(),
            known["slots"].count() if "slots" in known else None,
            known["tier"].text() if "tier" in known else None,
            row.resources() if {"cpu_cores", "memory_mb"} & set(known) else None,
        )


def _cost(row: Field) -> CostModel:
    known = row.fields("price_per_byte weights")
    given = row.numbers("price_per_byte")
    if "weights" in known:
        given["weights"] = tuple(one.number() for one in known["weights"].rows())
    with row.making():
        return CostModel(**given)


def _worker(
    row: Field, delta: float, table: tuple[Price, ...], seen: dict[str, dict[str, Any]]
) -> Worker:
    """A worker; what was measured of it is added to what has been seen."""
    if not isinstance(row.value, Mapping):
        row = Field({"id": row.text()}, row.where, row.path)
    name = row.fields(_WORKER, need=("id",))["id"].text()
    row = row.called(f"worker {name!r}")
    known = row.fields(_WORKER)
    said = row.texts("host executor_id tier") | {"delta": delta}
    said |= row.numbers(f"price_per_s delta {_NETWORK}")
    slots = row.counted("slots")
    with row.making():
        bare = Worker(name, row.resources(), slots, **said)
        # The worker's own values take precedence over the table.
        priced_as = priced([bare], table)[0] if table and "price_per_s" not in known else bare
        sized = bare if {"cpu_cores", "memory_mb"} & set(known) else priced_as
        slots = slots if "slots" in known else priced_as.slots
        size, tier = sized.capacity, bare.tier or priced_as.tier
        worker = replace(priced_as, slots=slots, capacity=size, tier=tier)
        if not (worker.slots and size.cpu_cores and size.memory_mb):
            raise ClusterFileError(
                f"{row.where} has {worker.slots} slots, {size}; give slots, cpu_cores and "
                "memory_mb, there or in a row of prices",
                row.path,
            )
        for key in known.keys() & set(_MEASURED.split()):
            seen[key][name] = known[key].measured()
            if key in ("cpu", "memory", "busyness"):
                share(key, seen[key][name])
        if "memory" in known and "cpu" not in known:
            raise ArgumentError("memory is in use, and how much of the CPU is not said; add cpu")
        if "reserved" in known:
            taken = known["reserved"]
            taken.fields(_SIZES)
            seen["reserved"][name] = Reserved(taken.counted("slots"), taken.resources())
    return worker


def _graph(operators: Field) -> JobGraph:
    tasks: list[Task] = []
    rows: dict[str, Field] = {}
    counts: dict[str, int] = {}
    names = [row.fields(_OPERATOR, need=("name",))["name"].text() for row in operators.rows()]
    _once(operators, "operator", names)
    for name, row in zip(names, operators.rows(), strict=True):
        row = rows[name] = row.called(f"operator {name!r}")
        known = row.fields(_OPERATOR)
        counts[name] = row.counted("parallelism", 1, 1)
        preferred = known["preferred"].rows() if "preferred" in known else []
        with row.making():
            places = tuple(one.text() for one in preferred)
            kind = Task(name, name, 0, row.resources(), preferred=places, **row.numbers(_RATES))
        tasks += [replace(kind, id=f"{name}-{i}", index=i) for i in range(counts[name])]
    send = [(name, row.at("to")) for name, row in rows.items() if "to" in row.value]
    edges = [edge for name, to in send for edge in _edges(name, to, counts)]
    _acyclic({name: list(row.value.get("to", {})) for name, row in rows.items()}, rows)
    return JobGraph(tuple(tasks), tuple(edges))


def _edges(name: str, to: Field, counts: Mapping[str, int]) -> list[Edge]:
    """The streams of an operator: what goes to another is shared evenly by all pairs of tasks."""
    if not isinstance(to.value, Mapping):
        raise to.error("give {name: bytes}")
    found = []
    for target in to.value:
        if target not in counts:
            raise ClusterFileError(
                f"operator {name!r} sends to {target!r}, which is no operator; there are "
                f"{', '.join(map(repr, counts))}",
                (*to.path, target),
            )
        pairs = [(i, j) for i in range(counts[name]) for j in range(counts[target])]
        each = to.at(target).measured() / len(pairs)
        found += [Edge(f"{name}-{i}", f"{target}-{j}", each) for i, j in pairs]
    return found


def _once(rows: Field, what: str, names: list[str]) -> None:
    for k, name in enumerate(names):
        if name in names[:k]:
            message = f"the {what} {name!r} is there twice; give each a name of its own"
            raise ClusterFileError(message, (*rows.path, k))


def _acyclic(targets: Mapping[str, list[str]], rows: Mapping[str, Field]) -> None:
    """Refuse operators that send to themselves, directly or through others."""
    try:
        TopologicalSorter(targets).prepare()
    except CycleError as error:
        circle = error.args[1][:0:-1]
        k = circle.index(min(circle, key=list(targets).index))
        circle = [*circle[k:], *circle[: k + 1]]
        raise ClusterFileError(
            f"the operators form a cycle, {' -> '.join(circle)}: a job is a directed acyclic "
            "graph; remove one of these `to` entries",
            (*rows[circle[-2]].path, "to", circle[-1]),
        ) from None


def _read(path: str | Path, parse: Callable[[Any], T]) -> T:
    """What is made of a YAML file; errors name the file and the line."""
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
    lines: dict[tuple[str, ...], int] = {}
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        content = None if node is None else loader.construct_document(node)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ClusterFileError(f"{path}: is no YAML: {error}") from error
    try:
        if node is not None:
            _lines(node, (), lines)
        return parse(content)
    except ClusterFileError as error:
        at = tuple(map(str, error.path))
        while at and at not in lines:
            at = at[:-1]
        line = f", line {lines[at]}" if at else ""
        raise ClusterFileError(f"{path}{line}: {error}", error.path) from error


def _lines(node: Any, path: tuple[str, ...], lines: dict[tuple[str, ...], int]) -> None:
    """The line of every value that an error may name."""
    lines[path] = node.start_mark.line + 1
    if len(path) == _DEEPEST:
        return
    if node.id == "sequence":
        for k, one in enumerate(node.value):
            _lines(one, (*path, str(k)), lines)
    elif node.id == "mapping":
        for key, one in node.value:
            inside = (*path, str(key.value))
            if inside in lines and key.value != "<<":
                lines[inside] = key.start_mark.line + 1
                raise ClusterFileError(f"{key.value!r} is there twice; keep one", inside)
            _lines(one, inside, lines)
