"""Clusters and jobs from a YAML file, for ``python -m scheduling``, which prints an example.

The first price whose pattern matches a worker counts. ``to`` gives, by operator, the bytes a second
that go there altogether. Numbers of an operator are those of one task.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, TypeVar

from scheduling.cost import CostModel, Price, priced
from scheduling.errors import ArgumentError, ClusterFileError, did_you_mean
from scheduling.model.checks import Rule, is_number, number, share, text, whole
from scheduling.model.cluster import Reserved, Resources, Snapshot, Utilisation, Worker
from scheduling.model.job import Edge, JobGraph, Task

_MEASURED: dict[str, Rule] = {"tuples": number, "cost": number, "busyness": share}
_TOP = "delta prices workers operators cost"
_SIZES = "slots cpu_cores memory_mb disk_mb"
_OF_PRICES = f"pattern tier price_per_s {_SIZES}"
_OF_WORKERS = "id host executor_id tier price_per_s delta bandwidth_bytes_per_s latency_s"
_OF_WORKERS += f" {_SIZES} cpu memory reserved {' '.join(_MEASURED)}"
_OF_OPERATORS = "name parallelism cpu_cores memory_mb disk_mb to preferred rate_in_per_s"
_OF_OPERATORS += " state_bytes input_bytes input_bytes_per_s"
# YAML 1.1 reads 1e5 and 1.0e12 as texts: its numbers have a point and a sign there.
_EXPONENT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)[eE][+-]?\d+")
_TEXTS = ("pattern", "tier", "id", "host", "executor_id", "name", "preferred")

T = TypeVar("T")
Part = tuple[str, Mapping[str, Any], dict[str, Any]]  # its name in errors, as it is, as it is meant


@dataclass(frozen=True)
class Cluster:
    """The content of a cluster file: workers and what is known of them, the job, the prices."""

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
        with _whose("the file", content):
            _fields("the file", content, _TOP, need="prices")
            return _prices(content["prices"])

    return _read(path, parse)


def parse(content: Any) -> Cluster:
    """The cluster that the content of a file describes: mappings, lists, numbers and texts.

    Raises:
        ClusterFileError: a name is unknown or missing, or a value cannot be used.
    """
    with _whose("the file", content):
        top = _fields("the file", content, _TOP, need="workers operators")
        delta = share("delta", top.get("delta", 0.8), above=True)
        table = _prices(content["prices"]) if "prices" in content else ()
        seen: dict[str, dict[str, Any]] = {name: {} for name in _MEASURED}
        seen |= {"utilisation": {}, "reserved": {}}
        rows = _named("worker", content["workers"], _OF_WORKERS, "id")
        workers = [_worker(row, delta, table, seen) for row in rows]
        graph = _graph(_named("operator", content["operators"], _OF_OPERATORS, "name"))
        prices = content.get("cost", {})
        known = _fields("cost", prices, "price_per_byte weights")
        with _whose("cost", prices):
            cost = CostModel(**known)
        for name, given in (("workers", workers), ("operators", graph.tasks)):
            if not given:
                raise _error(content, f"there are no {name}: give one or more", name)
        return Cluster(Snapshot(0.0, tuple(workers), **seen), graph, cost)


def _prices(rows: Any) -> tuple[Price, ...]:
    table = []
    for k, row in enumerate(_list("prices", rows)):
        known = _fields(f"prices[{k}]", row, _OF_PRICES, need="pattern price_per_s")
        with _whose(f"prices[{k}]", row):
            sized = {"cpu_cores", "memory_mb", "disk_mb"} & known.keys()
            if sized and not {"cpu_cores", "memory_mb"} <= sized:
                told = f"{sorted(sized)[0]} is the size of a worker in part; give cpu_cores and"
                raise ArgumentError(f"{told} memory_mb, or neither")
            table.append(_made(Price, known, capacity=_resources(known) if sized else None))
    return tuple(table)


def _worker(
    part: Part, delta: float, table: tuple[Price, ...], seen: dict[str, dict[str, Any]]
) -> Worker:
    """A worker; what was measured of it is added to what has been seen."""
    where, row, known = part
    name = known["id"]
    with _whose(where, row):
        worker = _made(Worker, {"delta": delta, "slots": 0, **known}, capacity=_resources(known))
        priceless = table and "price_per_s" not in known
        if priceless or any(one.matches(worker) for one in table):
            given = priced([worker], table)[0]
            # The worker's own values go before the table's, each by itself.
            own = {what: known[what] for what in known.keys() & {"slots", "tier", "price_per_s"}}
            size = _resources({**given.capacity.__dict__, **known})
            worker = replace(given, **own, capacity=size)
        if not (worker.slots and worker.capacity.cpu_cores and worker.capacity.memory_mb):
            told = f"{where} has {worker.slots} slots, {worker.capacity}; give slots, cpu_cores and"
            raise _error(row, f"{told} memory_mb, there or in a row of prices")
        if "cpu" in known:
            seen["utilisation"][name] = _made(Utilisation, known)
        elif "memory" in known:
            raise ArgumentError("memory is in use, and how much of the CPU is not said; add cpu")
        for what in _MEASURED.keys() & known.keys():
            seen[what][name] = _MEASURED[what](what, known[what])
        if "reserved" in known:
            others = f"reserved of {where}", row["reserved"]
            taken = _fields(*others, _SIZES)
            with _whose(*others):
                seen["reserved"][name] = _made(Reserved, taken, resources=_resources(taken))
    return worker


def _graph(parts: list[Part]) -> JobGraph:
    """The tasks of the operators; what one sends is shared evenly by all pairs of tasks."""
    tasks, edges, order = dict[str, list[Task]](), list[Edge](), TopologicalSorter[str]()
    for where, row, known in parts:
        name = known["name"]
        with _whose(where, row):
            count = whole("parallelism", known.get("parallelism", 1), least=1)
            named = {"id": name, "operator": name, "index": 0, "demand": _resources(known)}
            one = _made(Task, known, **named)
            tasks[name] = [replace(one, id=f"{name}-{i}", index=i) for i in range(count)]
    sends = {known["name"]: (where, row) for where, row, known in parts if "to" in known}
    for name, (where, row) in sends.items():
        with _whose(where, row):
            if not isinstance(to := row["to"], Mapping):
                raise ArgumentError(f"to of {where} is {to!r}: give {{name: bytes}}")
            for key, size in to.items():
                if (target := _plain("name", key)) not in tasks:
                    told = f"{where} sends to {target!r}, which is no operator; there are"
                    raise _error(to, f"{told} {', '.join(tasks)}", target)
                order.add(target, name)
                pairs = [(one.id, other.id) for one in tasks[name] for other in tasks[target]]
                with _whose(f"to of {where}", to):
                    each = number(str(target), _plain("bytes", size)) / len(pairs)
                edges += [Edge(one, other, each) for one, other in pairs]
    try:
        order.prepare()
    except CycleError as error:
        *_, last, first = circle = error.args[1]
        told = f"the operators form a cycle, {' -> '.join(circle)}: a job is a directed acyclic"
        told += " graph; remove one of these `to` entries"
        raise _error(sends[last][1]["to"], told, first) from None
    return JobGraph(tuple(task for ones in tasks.values() for task in ones), tuple(edges))


def _read(path: str | Path, parse: Callable[[Any], T]) -> T:
    """Parse a YAML file; errors name the file and the line."""
    try:
        import yaml
    except ImportError as error:
        hint = "and PyYAML is not installed: pip install 'bsjoin[scheduling]'"
        raise ImportError(f"cluster files are YAML, {hint}") from error

    def mapping(loader: Any, node: Any) -> _Mapping:
        seen = {"<<"}
        for key, _ in node.value:
            if str(key.value) in seen and key.value != "<<":
                line = key.start_mark.line + 1
                raise ClusterFileError(f"{key.value!r} is there twice", line)
            seen.add(str(key.value))
        found = _Mapping(loader.construct_mapping(node, deep=True))
        found.line = node.start_mark.line + 1
        found.lines = {key.value: value.start_mark.line + 1 for key, value in node.value}
        return found

    def sequence(loader: Any, node: Any) -> _List:
        found = _List(loader.construct_sequence(node, deep=True))
        found.lines = dict(enumerate(one.start_mark.line + 1 for one in node.value))
        return found

    loader: Any = type("Loader", (yaml.SafeLoader,), {})
    loader.add_constructor("tag:yaml.org,2002:map", mapping)
    loader.add_constructor("tag:yaml.org,2002:seq", sequence)
    try:
        return parse(loader(Path(path).read_text("utf-8")).get_single_data())
    except ClusterFileError as error:
        line = f", line {error.line}" if error.line else ""
        raise ClusterFileError(f"{path}{line}: {error}", error.line) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ClusterFileError(f"{path}: cannot be read: {error}. Give a YAML file") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ClusterFileError(f"{path}: is no YAML: {error}") from error


class _Mapping(dict[str, Any]):
    """A mapping of a file, with its line and those of its values."""

    line: int
    lines: dict[Any, int]


class _List(list[Any]):
    """A list of a file, with the lines of its values."""

    lines: dict[Any, int]


def _error(part: Any, told: str, name: object = "") -> ClusterFileError:
    """An error of a mapping or list, or of its value under a name, with the line in a file."""
    return ClusterFileError(told, getattr(part, "lines", {}).get(name, getattr(part, "line", 0)))


@contextmanager
def _whose(where: str, part: Any) -> Iterator[None]:
    """Say of an error of what is made of a mapping whose it is, and in which line."""
    try:
        yield
    except ClusterFileError:
        raise
    except ArgumentError as error:
        told = str(error) if where in str(error) else f"{where}: {error}"
        raise _error(part, told, re.split(r"\W", str(error), maxsplit=1)[0]) from error


def _list(where: str, rows: Any) -> list[Any]:
    if not isinstance(rows, list):
        raise ArgumentError(f"{where} is {rows!r}: give a list")
    return rows


def _fields(where: str, part: Any, names: str, need: str = "") -> dict[str, Any]:
    """The values of a mapping, which has these ``names`` only, and all those in ``need``."""
    if not isinstance(part, Mapping):
        told = "empty" if part is None else repr(part)
        raise ArgumentError(f"{where} is {told}: give names with values")
    known = names.split()
    for name in part:
        if name not in known:
            hint = did_you_mean(name, known)
            raise _error(part, f"{where} has no field {name!r}. {hint}", name)
    for name in need.split():
        if name not in part:
            raise _error(part, f"{where} lacks {name!r}; add it")
    return {name: _plain(name, value) for name, value in part.items()}


def _named(what: str, rows: Any, names: str, by: str) -> list[Part]:
    """The parts of a list, each with a name of its own; one that is no mapping is its name."""
    found = dict[str, Part]()
    for k, row in enumerate(_list(f"{what}s", rows)):
        if not isinstance(row, Mapping):
            row = _Mapping({by: row})
            row.line = getattr(rows, "lines", {}).get(k, 0)
        known = _fields(f"{what}s[{k}]", row, names, need=by)
        with _whose(f"{what}s[{k}]", row):
            name = text(by, known[by])
        if name in found:
            told = f"the {what} {name!r} is there twice; give each a name of its own"
            raise _error(row, told)
        found[name] = f"{what} {name!r}", row, known
    return list(found.values())


def _made(kind: type[T], known: Mapping[str, Any], **more: Any) -> T:
    """An object of a dataclass, of the values that are known of its fields, and more."""
    names = [one.name for one in fields(kind) if one.name in known]  # type: ignore[arg-type]
    return kind(**{name: known[name] for name in names} | more)


def _resources(known: Mapping[str, Any]) -> Resources:
    return _made(Resources, {"cpu_cores": 0.0, "memory_mb": 0.0, **known})


def _plain(name: str, value: Any) -> Any:
    """A value as it is meant: a number is the text that shows it, and the reverse."""
    if isinstance(value, list):
        return tuple(_plain(name, one) for one in value)
    if name in _TEXTS:
        return str(value) if is_number(value) else value
    return float(value) if isinstance(value, str) and _EXPONENT.fullmatch(value) else value
