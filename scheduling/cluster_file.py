"""Clusters and jobs from a YAML file, for ``python -m scheduling``, which prints an example.

A file has ``workers`` and ``operators``, and may have ``delta``, ``prices`` and ``cost``. Workers
are names, or names with what is known of them; the first price whose pattern matches counts. ``to``
gives, by operator, the bytes a second that go there altogether; they are shared evenly by all pairs
of tasks. Numbers of an operator are those of one task.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, TypeVar

from scheduling.cost import CostModel, Price, priced
from scheduling.errors import ArgumentError, ClusterFileError, did_you_mean
from scheduling.model.checks import Rule, is_number, number, share, text, whole
from scheduling.model.cluster import Reserved, Resources, Snapshot, Utilisation, Worker
from scheduling.model.job import Edge, JobGraph, Task

_TOP = "delta prices workers operators cost"
_SIZES = "slots cpu_cores memory_mb disk_mb"
_OF_PRICES = "pattern tier price_per_s slots"
_OF_WORKERS = "id host executor_id tier price_per_s delta slots bandwidth_bytes_per_s latency_s"
_MEASURED: dict[str, Rule] = {"tuples": number, "cost": number, "busyness": share}
_OF_TASKS = "preferred rate_in_per_s state_bytes input_bytes input_bytes_per_s"
# YAML 1.1 reads 1e5 and 1.0e12 as texts: its numbers have a point and a sign there.
_EXPONENT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)[eE][+-]?\d+")
_TEXTS = ("pattern", "tier", "id", "host", "executor_id", "name", "preferred")

T = TypeVar("T")


@dataclass(frozen=True)
class Cluster:
    """What a cluster file says: the workers and what is known of them, the job, the prices."""

    snapshot: Snapshot
    graph: JobGraph
    cost: CostModel = field(default_factory=CostModel)


def read(path: str | Path) -> Cluster:
    """The cluster of a YAML file, in the form of ``python -m scheduling example``.

    Raises:
        ClusterFileError: it cannot be read or used; the message names the file, line and field.
        ImportError: PyYAML is not installed; ``pip install bsjoin[scheduling]``.
    """
    return _read(path, parse)


def read_prices(path: str | Path) -> tuple[Price, ...]:
    """The price table of a cluster file, which may hold nothing else; errors as of :func:`read`."""

    def parse(content: Any) -> tuple[Price, ...]:
        file = _Field(content)
        file.read(_TOP, need="prices")
        return _prices(file.at("prices"))

    return _read(path, parse)


def parse(content: Any) -> Cluster:
    """The cluster that the content of a file describes: mappings, lists, numbers and texts.

    Raises:
        ClusterFileError: a name is unknown or missing, or a value cannot be used.
    """
    file, cost = _Field(content), CostModel()
    top = file.read(_TOP, need="workers operators")
    with file.making():
        delta = share("delta", top.get("delta", 0.8), above=True)
    table = _prices(file.at("prices")) if "prices" in top else ()
    seen: dict[str, dict[str, Any]] = {"utilisation": {}, "reserved": {}}
    seen |= {name: {} for name in _MEASURED}
    workers = [_worker(row, delta, table, seen) for row in file.at("workers").rows()]
    file.at("workers").unique("worker", [worker.id for worker in workers])
    graph = _graph(file.at("operators"))
    if "cost" in top:
        with (part := file.at("cost")).making():
            cost = CostModel(**part.read("price_per_byte weights"))
    for name, given in (("workers", workers), ("operators", graph.tasks)):
        if not given:
            raise file.error(f"there are no {name}: give one or more", name)
    return Cluster(Snapshot(0.0, tuple(workers), **seen), graph, cost)


def _prices(rows: _Field) -> tuple[Price, ...]:
    table = []
    for row in rows.rows():
        known = row.read(f"{_OF_PRICES} {_SIZES}", need="pattern price_per_s")
        with row.making():
            capacity = _resources(known) if {"cpu_cores", "memory_mb"} & known.keys() else None
            table.append(Price(capacity=capacity, **_among(_OF_PRICES, known)))
    return tuple(table)


def _worker(
    row: _Field, delta: float, table: tuple[Price, ...], seen: dict[str, dict[str, Any]]
) -> Worker:
    """A worker; what was measured of it is added to what has been seen."""
    if not isinstance(row.value, Mapping):
        row = replace(row, value={"id": row.value})
    names = f"{_OF_WORKERS} {_SIZES} {' '.join(_MEASURED)} cpu memory reserved"
    row, known = row.named("worker", "id", names)
    name = known["id"]
    with row.making():
        own = {"delta": delta, "slots": 0} | _among(_OF_WORKERS, known)
        bare = Worker(capacity=_resources(known), **own)
        # The worker's own values take precedence over the table.
        by_table = priced([bare], table)[0] if table and "price_per_s" not in known else bare
        size = (bare if {"cpu_cores", "memory_mb"} & known.keys() else by_table).capacity
        slots = (bare if "slots" in known else by_table).slots
        worker = replace(by_table, slots=slots, capacity=size, tier=bare.tier or by_table.tier)
        if not (slots and size.cpu_cores and size.memory_mb):
            told = f"{row.where} has {slots} slots, {size}; give slots, cpu_cores and memory_mb, "
            raise row.error(f"{told}there or in a row of prices")
        if "cpu" in known:
            seen["utilisation"][name] = Utilisation(known["cpu"], known.get("memory", 0.0))
        elif "memory" in known:
            raise ArgumentError("memory is in use, and how much of the CPU is not said; add cpu")
        for what in _MEASURED.keys() & known.keys():
            seen[what][name] = _MEASURED[what](what, known[what])
    if "reserved" in known:
        taken = (part := row.at("reserved")).read(_SIZES)
        with part.making():
            seen["reserved"][name] = Reserved(taken.get("slots", 0), _resources(taken))
    return worker


def _resources(known: Mapping[str, Any]) -> Resources:
    sizes = {"cpu_cores": 0.0, "memory_mb": 0.0}
    return Resources(**sizes | _among("cpu_cores memory_mb disk_mb", known))


def _graph(operators: _Field) -> JobGraph:
    """The tasks of the operators; what one sends is shared evenly by all pairs of tasks."""
    names = f"name parallelism cpu_cores memory_mb disk_mb to {_OF_TASKS}"
    found = [row.named("operator", "name", names) for row in operators.rows()]
    operators.unique("operator", [known["name"] for _, known in found])
    tasks: dict[str, list[Task]] = {}
    for row, known in found:
        name = known["name"]
        with row.making():
            count = whole("parallelism", known.get("parallelism", 1), least=1)
            one = Task(name, name, 0, _resources(known), **_among(_OF_TASKS, known))
            tasks[name] = [replace(one, id=f"{name}-{i}", index=i) for i in range(count)]
    edges, order = list[Edge](), TopologicalSorter[str](dict.fromkeys(tasks, ()))
    sends = {known["name"]: row.at("to") for row, known in found if "to" in known}
    for name, to in sends.items():
        for target in to.of(Mapping, "{name: bytes}"):
            if target not in tasks:
                told = f"operator {name!r} sends to {target!r}, which is no operator; there are"
                raise to.error(f"{told} {', '.join(tasks)}", target)
            order.add(target, name)
            pairs = [(one.id, other.id) for one in tasks[name] for other in tasks[target]]
            with (part := to.at(target)).making():
                each = number("bytes", _plain("bytes", part.value)) / len(pairs)
            edges += [Edge(one, other, each) for one, other in pairs]
    try:
        order.prepare()
    except CycleError as error:
        *_, last, first = circle = error.args[1]
        told = f"the operators form a cycle, {' -> '.join(circle)}: a job is a directed acyclic"
        told += " graph; remove one of these `to` entries"
        raise sends[last].error(told, first) from None
    return JobGraph(tuple(task for ones in tasks.values() for task in ones), tuple(edges))


def _read(path: str | Path, parse: Callable[[Any], T]) -> T:
    """What is made of a YAML file; errors name the file and the line."""
    try:
        import yaml
    except ImportError as error:
        hint = "and PyYAML is not installed: pip install 'bsjoin[scheduling]'"
        raise ImportError(f"cluster files are YAML, {hint}") from error
    try:
        said = Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ClusterFileError(f"{path}: cannot be read: {error}. Give a YAML file") from error

    class Loader(yaml.SafeLoader):
        def compose_mapping_node(self, anchor: Any) -> Any:
            node, seen = super().compose_mapping_node(anchor), {"<<"}
            for key, _ in node.value:
                if str(key.value) in seen and key.value != "<<":
                    line = f"line {key.start_mark.line + 1}"
                    raise ClusterFileError(f"{path}, {line}: {key.value!r} is there twice")
                seen.add(str(key.value))
            return node

    try:
        loader = Loader(said)
        node = loader.get_single_node()
        content = None if node is None else loader.construct_document(node)
    except ClusterFileError:
        raise
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ClusterFileError(f"{path}: is no YAML: {error}") from error
    try:
        return parse(content)
    except ClusterFileError as error:
        raise ClusterFileError(f"{path}{_line(node, error.path)}: {error}", error.path) from error


def _line(node: Any, path: tuple[Any, ...]) -> str:
    """The line of the value that a path leads to, or of the last one on the way; empty for none."""
    line = ""
    for name in path:
        pairs = node.value if node.id == "mapping" else enumerate(node.value)
        found = (value for key, value in pairs if str(getattr(key, "value", key)) == str(name))
        node = next(found, None)
        if node is None:
            break
        line = f", line {node.start_mark.line + 1}"
    return line


@dataclass(frozen=True)
class _Field:
    """A value, its name in errors, and the names and positions that lead to it.

    Every method raises :class:`ClusterFileError` for a value of another kind.
    """

    value: Any
    where: str = "the file"
    path: tuple[Any, ...] = ()

    def error(self, told: str, *more: Any) -> ClusterFileError:
        """An error of this value, or of what is inside it."""
        return ClusterFileError(told, (*self.path, *more))

    def of(self, kind: type, give: str) -> Any:
        """The value, which is of a kind."""
        if not isinstance(self.value, kind):
            raise self.error(f"{self.where} is {self.value!r}: give {give}")
        return self.value

    def read(self, names: str, need: str = "") -> dict[str, Any]:
        """The values of a mapping, which has these ``names`` only, and all those in ``need``."""
        if self.value is None:
            raise self.error(f"{self.where} is empty: give names with values")
        known = names.split()
        for name in self.of(Mapping, "names with values"):
            if name not in known:
                hint = did_you_mean(name, known)
                raise self.error(f"{self.where} has no field {name!r}. {hint}", name)
        for name in need.split():
            if name not in self.value:
                raise self.error(f"{self.where} lacks {name!r}; add it")
        return {name: _plain(name, value) for name, value in self.value.items()}

    def named(self, what: str, by: str, names: str) -> tuple[_Field, dict[str, Any]]:
        """A mapping under the name that it has in a field, and the values of its fields."""
        known = self.read(names, need=by)
        with self.making():
            return replace(self, where=f"{what} {text(by, known[by])!r}"), known

    def unique(self, what: str, names: list[str]) -> None:
        """Refuse a name that an entry of a list before has."""
        for k, name in enumerate(names):
            if name in names[:k]:
                told = f"the {what} {name!r} is there twice; give each a name of its own"
                raise self.error(told, k)

    def at(self, name: Any) -> _Field:
        """A field of a mapping."""
        where = f"{name} of {self.where}" if self.path else str(name)
        return _Field(self.value[name], where, (*self.path, name))

    def rows(self) -> list[_Field]:
        """The entries of a list."""
        each = enumerate(self.of(list, "a list"))
        return [_Field(value, f"{self.where}[{k}]", (*self.path, k)) for k, value in each]

    @contextmanager
    def making(self) -> Iterator[None]:
        """Say of an error of what is made of a mapping whose it is, and in which field."""
        try:
            yield
        except ClusterFileError:
            raise
        except ArgumentError as error:
            name = re.match(r"\w*", str(error))
            inside = name is not None and isinstance(self.value, Mapping) and name[0] in self.value
            path = (*self.path, name[0]) if name and inside else self.path
            whose = "" if self.where in str(error) else f"{self.where}: "
            raise ClusterFileError(f"{whose}{error}", path) from error


def _plain(name: str, value: Any) -> Any:
    """A value as it is meant: a number is the text that shows it, and the reverse."""
    if isinstance(value, list):
        return tuple(_plain(name, one) for one in value)
    if name in _TEXTS:
        return str(value) if is_number(value) else value
    return float(value) if isinstance(value, str) and _EXPONENT.fullmatch(value) else value


def _among(names: str, known: Mapping[str, Any]) -> dict[str, Any]:
    """The values of these fields that are known."""
    return {name: known[name] for name in names.split() if name in known}
