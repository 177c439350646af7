"""The projections between the result of a join and a DataFrame that is derived from it.

``select``, ``drop``, ``withColumn`` and ``withColumnRenamed`` add projections to the analyzed plan,
and ``alias`` a name: the rows stay the same. So a later join can run below them, in the
stage of the earlier one. They are then put above the new stage as they are; only the columns of
the earlier result are replaced by those of the new one.

A result is recognized by the identity of its plan in the JVM. Where a private member of Spark that
this needs is missing or fails (:mod:`bsjoin.spark.compat`), the DataFrame counts as one that is not
derived from a join, a new stage begins, and a debug message in the log says so.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame

from bsjoin.spark import compat
from bsjoin.spark.compat import Catalyst
from bsjoin.spark.session import is_connect

UNREADABLE = "the plan between the joins cannot be read"

_log = logging.getLogger("bsjoin")
_ATTRIBUTE = "_bsjoin_made_by"
_ROWS_STAY = ("Project", "SubqueryAlias")
_ROWS_STAY_ON_CONNECT = (*_ROWS_STAY, "WithColumns", "WithColumnsRenamed", "Drop", "ToDF")
_COLUMN = "AttributeReference"
_SWEPT_FROM = 64
_making = threading.Lock()

P = ParamSpec("P")
Result = TypeVar("Result")


def _guarded(use: Callable[P, Result]) -> Callable[P, Result | None]:
    """A function that uses private members of Spark; it returns None where they fail."""

    @functools.wraps(use)
    def guarded(*args: P.args, **options: P.kwargs) -> Result | None:
        try:
            return use(*args, **options)
        except Exception as error:
            _log.debug("bsjoin: the plan of a DataFrame cannot be used: %s", error)
            return None

    return guarded


@dataclass(frozen=True)
class Projection:
    """The projections between the result of a join and a DataFrame.

    Args:
        made_by: what was registered for the result.
        against: why its projections cannot be put above other rows; empty if they can.
        plan: the analyzed plan of the result.
        nodes: the nodes above it, last first.
        catalyst: the classes of Spark's plans, as :class:`Catalyst` has them.
    """

    made_by: Any
    against: str
    plan: Any = None
    nodes: tuple[Any, ...] = ()
    catalyst: Any = None

    @_guarded
    def numbers(self, columns: Sequence[int]) -> list[int | None]:
        """The columns of the result that columns of the DataFrame are; None for a computed one.

        Returns:
            None altogether where the plan cannot be read.

        Complexity: O(nodes + columns) calls of the JVM.
        """
        output = (self.nodes[0] if self.nodes else self.plan).output()
        wanted = self.catalyst.seq([output.apply(number) for number in columns])
        for node in self.nodes:
            if node.nodeName() == "Project":
                wanted = self.catalyst.collapse.buildCleanedProjectList(wanted, node.projectList())
        given = self.catalyst.attributes(self.plan.output())
        found: list[int | None] = []
        for i in range(len(columns)):
            item = wanted.apply(i)
            if item.nodeName() == "Alias":
                item = item.child()
            number = given.indexOf(item.exprId()) if item.nodeName() == _COLUMN else -1
            found.append(number if number >= 0 else None)
        return found

    @_guarded
    def above(self, rows: DataFrame, added: int) -> DataFrame:
        """The projections above other rows; None where the plan cannot be rewritten.

        These have the columns of the result, in the same order, then others; the ``added`` last
        ones come behind the columns of the DataFrame.

        Complexity: O(nodes) calls of the JVM.
        """
        plan = compat.analyzed(rows)
        columns = plan.output()
        same = self.catalyst.map.apply(self.plan.output().zip(columns))
        last = columns.takeRight(added)
        for node in reversed(self.nodes):
            if node.nodeName() == "Project":
                items = node.rewriteAttrs(same).projectList().appendedAll(last)
                plan = self.catalyst.project(items, plan)
            else:
                plan = node.withNewChildren(self.catalyst.seq([plan]))
        return compat.dataframe_of(plan, rows)


@_guarded
def register(result: DataFrame, made_by: object) -> None:
    """Note what made a result, as long as its plan, or one derived from it, is in use."""
    if is_connect(result.sparkSession):
        setattr(compat.connect_plan(result), _ATTRIBUTE, made_by)
    else:
        _results_of(compat.catalyst(result)).add(compat.analyzed(result), made_by)


@_guarded
def projection(df: DataFrame, *, rows_change: bool = False) -> Projection | None:
    """Return how a DataFrame is derived from the result of a join; None if it is not.

    With ``rows_change`` also by filters, aggregations and so on, which end a stage.

    Complexity: O(nodes above the result) calls of the JVM.
    """
    if is_connect(df.sparkSession):
        return _on_connect(df, rows_change)
    catalyst = compat.catalyst(df)
    if not (results := _results_of(catalyst)):
        return None
    node, nodes, against = compat.analyzed(df), list[Any](), ""
    while True:
        made_by = results.get(node)
        if made_by is not None:
            break
        if (name := node.nodeName()) not in _ROWS_STAY:
            if not rows_change or node.children().size() != 1:
                return None
            against = f"between them is {name}"
        nodes.append(node)
        node = node.children().apply(0)
    if not against:
        against = _objection(catalyst, nodes, node, compat.java_session(df.sparkSession))
    return Projection(made_by, against, node, tuple(nodes), catalyst)


def _on_connect(df: DataFrame, rows_change: bool) -> Projection | None:
    """A Connect session has no analyzed plan, but the calls that made the DataFrame."""
    against = "under Spark Connect a selection between joins begins a new stage"
    plan: Any = compat.connect_plan(df)
    while plan is not None:
        made_by = vars(plan).get(_ATTRIBUTE)
        if made_by is not None:
            return Projection(made_by, against)
        if (name := type(plan).__name__) not in _ROWS_STAY_ON_CONNECT:
            if not rows_change:
                return None
            against = f"between them is {name}"
        plan = next(iter(compat.inputs_of(plan)), None)
    return None


def results_in(df: DataFrame) -> list[Any]:
    """Return the makers of the joins' results in a DataFrame, each once, in the order of its plan.

    What is below such a result is not searched.

    Complexity: O(nodes of the plan) calls of the JVM.
    """
    return _results_in(df) or []


@_guarded
def _results_in(df: DataFrame) -> list[Any]:
    if is_connect(df.sparkSession):
        found = _results_on_connect(compat.connect_plan(df))
    else:
        found = _results_below(df)
    return [*{id(made_by): made_by for made_by in found}.values()]


def _results_below(df: DataFrame) -> Iterator[Any]:
    nodes, results = [compat.analyzed(df)], _results_of(compat.catalyst(df))
    while nodes and results:
        node = nodes.pop()
        made_by = results.get(node)
        if made_by is not None:
            yield made_by
            continue
        children = node.children()
        nodes += [children.apply(number) for number in reversed(range(children.size()))]


def _results_on_connect(plan: Any) -> Iterator[Any]:
    made_by = vars(plan).get(_ATTRIBUTE)
    if made_by is not None:
        yield made_by
        return
    for one in compat.plans_in(plan):
        yield from _results_on_connect(one)


def _objection(catalyst: Catalyst, nodes: Sequence[Any], result: Any, session: Any) -> str:
    """Why projections cannot be put above other rows; empty if they can."""
    stub = catalyst.no_rows()
    for node in reversed(nodes):
        if node.nodeName() == "Project":
            stub = catalyst.project(node.projectList(), stub)
    if not stub.deterministic():
        return "an expression between them is not deterministic"
    if stub.containsPattern(catalyst.python_function):
        return "a Python function is between them"
    if stub.containsPattern(catalyst.subquery):
        return "a subquery is between them"
    if not session.sharedState().cacheManager().isEmpty():
        for node in [*nodes, result]:
            level = catalyst.rows_of(session, node).storageLevel()
            if level.useMemory() or level.useDisk():
                return "the rows between them are cached"
    return ""


class _Results:
    """The makers of the plans of results, by their identity; forgotten with the plan."""

    def __init__(self, catalyst: Catalyst):
        self._identity, self._weak = catalyst.identity, catalyst.weak
        self._lock = threading.Lock()
        self._known: dict[int, list[tuple[Any, object]]] = {}
        self._sweep_at = _SWEPT_FROM

    def __len__(self) -> int:
        return len(self._known)

    def add(self, plan: Any, made_by: object) -> None:
        """Note what made a plan."""
        identity, entry = self._identity(plan), (self._weak(plan), made_by)
        with self._lock:
            self._known.setdefault(identity, []).append(entry)
            if len(self._known) >= self._sweep_at:
                self._sweep()

    def get(self, plan: Any) -> object | None:
        """Return the maker of a plan; None for a plan that is not known."""
        for reference, made_by in self._known.get(self._identity(plan), ()):
            if reference.refersTo(plan):
                return made_by
        return None

    def _sweep(self) -> None:
        """Forget plans that are gone; as seldom as there are plans, so that it costs O(1) each."""
        kept = {
            identity: [entry for entry in entries if not entry[0].refersTo(None)]
            for identity, entries in self._known.items()
        }
        self._known = {identity: entries for identity, entries in kept.items() if entries}
        self._sweep_at = max(_SWEPT_FROM, 2 * len(self._known))


_results: WeakKeyDictionary[Catalyst, _Results] = WeakKeyDictionary()


def _results_of(catalyst: Catalyst) -> _Results:
    with _making:
        if catalyst not in _results:
            _results[catalyst] = _Results(catalyst)
        return _results[catalyst]
