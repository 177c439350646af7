"""Every private member of Spark that bsjoin touches; no other module touches one.

(But for the cause of an error, in :mod:`bsjoin.errors`, which knows nothing of Spark.)

Each function here is an entry: it says what it touches, and what bsjoin does without it. Where a
member is missing, or fails, an entry raises :class:`MissingMemberError`, which its callers turn
into the way without it and a debug message in the log; or it returns what its text says. A user
never sees the error. Members of the JVM's objects that an entry returns (plans, sessions) are read
by its callers, under the same guard.

All members were found, and worked, with the versions in :data:`VERIFIED`: ``tests/smoke_compat.py``
runs every entry, with each of them in ``scripts/matrix.py``.
"""

from __future__ import annotations

import functools
import json
import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Observation, SparkSession, is_remote
from pyspark.sql.streaming.listener import StreamingQueryProgress

VERIFIED = ("4.1", "4.2", "4.3")
"""The versions of Spark that have all of these members."""

_log = logging.getLogger("bsjoin")
_MISSING = (AttributeError, ImportError, KeyError, TypeError)

P = ParamSpec("P")
R = TypeVar("R")


class MissingMemberError(Exception):
    """A private member that this version, or distribution, of Spark does not have."""


@dataclass(frozen=True)
class Entry:
    """A private member, or several that are used together.

    Args:
        touches: their names.
        without: what happens where one is missing.
        side: "classic", "connect", or "both": the sessions that it is used with.
        versions: of Spark that have it.
    """

    touches: str
    without: str
    side: str
    versions: tuple[str, ...] = VERIFIED


ENTRIES: dict[str, Entry] = {}
"""All entries, by the names of their functions."""


def _entry(
    touches: str, without: str, side: str = "classic"
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Register an entry; what fails in it because of a member is a MissingMemberError."""

    def registered(function: Callable[P, R]) -> Callable[P, R]:
        name = function.__name__
        ENTRIES[name] = Entry(touches, without, side)

        @functools.wraps(function)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return function(*args, **kwargs)
            except Exception as error:
                if not isinstance(error, (*_MISSING, *_of_gateway())):
                    raise
                missing = f"{name}: Spark has no {touches} as in {', '.join(VERIFIED)}: {error}"
                _log.debug("bsjoin: %s; without it %s", missing, without)
                raise MissingMemberError(missing) from error

        return guarded

    return registered


def _of_gateway() -> tuple[type[Exception], ...]:
    try:
        from py4j.protocol import Py4JError
    except ImportError:  # the package of a mere Connect client has none
        return ()
    return (Py4JError,)


def failures() -> tuple[type[Exception], ...]:
    """The exceptions of Spark, of the gateway to its JVM, and of the entries of this module."""
    return PySparkException, MissingMemberError, *_of_gateway()


# Plans of classic sessions.


@_entry("DataFrame._jdf, QueryExecution.analyzed", "the plan is not read: see the callers")
def analyzed(df: DataFrame) -> Any:
    """The analyzed plan of a DataFrame.

    Without it columns of a join's result have new identities, each join begins a stage of its own,
    and sources are read again, since nothing says that they have not changed.
    """
    return df._jdf.queryExecution().analyzed()


@_entry("DataFrame._jdf, QueryExecution.withCachedData", "a source is read again")
def with_cached_data(df: DataFrame) -> Any:
    """The plan of a DataFrame with the rows that Spark keeps in the place of what they are of."""
    return df.select("*")._jdf.queryExecution().withCachedData()


@_entry("SparkSession._jsparkSession", "as without analyzed()")
def java_session(spark: SparkSession) -> Any:
    """A session, as the JVM has it."""
    return spark._jsparkSession


@_entry("SparkSession._jsparkSession, Map.mkString", "each setting takes several calls of the JVM")
def settings_at_once(spark: SparkSession) -> dict[str, str]:
    """The settings that a session has, by a few calls of the JVM for all of them."""
    found = java_session(spark).conf().getAll()
    names, values = (
        str(some.mkString("\0")).split("\0") for some in (found.keys(), found.values())
    )
    if len(names) != len(values):
        raise KeyError("a value has the character that stands between values")
    return dict(zip(names, values, strict=True))


@_entry("classic.Dataset.ofRows, DataFrame(JavaObject, SparkSession)", "as without analyzed()")
def dataframe_of(plan: Any, like: DataFrame) -> DataFrame:
    """The DataFrame of an analyzed plan, of the session of another one."""
    spark = like.sparkSession
    made: Any = type(like)
    found: DataFrame = made(catalyst(like).rows_of(java_session(spark), plan), spark)
    return found


class Catalyst:
    """The classes that plans are made and compared with, as a JVM has them.

    To find one takes a call of the JVM for each part of its name, so each is looked up once.
    """

    def __init__(self, jvm: Any):
        sql, to_seq = jvm.org.apache.spark.sql, jvm.PythonUtils.toSeq
        expressions, logical = sql.catalyst.expressions, sql.catalyst.plans.logical
        pattern = sql.catalyst.trees.TreePattern
        self.alias = expressions.Alias
        self.project = logical.Project
        self.map_in_arrow = logical.MapInArrow
        self.no_rows = logical.OneRowRelation
        self.rows_of = sql.classic.Dataset.ofRows
        self.attributes = getattr(expressions, "package$AttributeSeq")
        self.map = _module(expressions, "AttributeMap")
        self.collapse = _module(sql.catalyst.optimizer, "CollapseProject")
        self.python_function, self.subquery = pattern.PYTHON_UDF(), pattern.PLAN_EXPRESSION()
        self.new_identity = _module(expressions, "NamedExpression").newExprId
        self.seq: Callable[[list[Any]], Any] = to_seq
        self.none, self.no_keys = jvm.scala.Option.empty(), to_seq([])
        self.identity = jvm.java.lang.System.identityHashCode
        self.weak = jvm.java.lang.ref.WeakReference


_catalysts: WeakKeyDictionary[Any, Catalyst] = WeakKeyDictionary()
_making = threading.Lock()


@_entry("SparkSession._jvm, the classes of Catalyst, PythonUtils", "as without analyzed()")
def catalyst(df: DataFrame) -> Catalyst:
    """The classes as the JVM of a DataFrame has them: one object for each JVM."""
    jvm = df.sparkSession._jvm
    with _making:
        if jvm not in _catalysts:
            _catalysts[jvm] = Catalyst(jvm)
        return _catalysts[jvm]


def _module(package: Any, name: str) -> Any:
    """A Scala object that has a class of the same name."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")


# Applications, their queries and what these observe.


def attach_jar(spark: SparkSession, path: Path, name: str) -> bool:
    """Give a jar, which has the class ``name``, to the driver's class loader and to the executors.

    Returns:
        Whether the session has it now. Without the members, or where the loader is not one of
        Spark's, it does not: ``ADD JAR`` gives it to that session alone.
    """
    try:
        return _attached(spark, path, name)
    except MissingMemberError:
        return False


@_entry("SparkSession._jvm, SparkContext._jsc, MutableURLClassLoader.addURL", "SQL's ADD JAR")
def _attached(spark: SparkSession, path: Path, name: str) -> bool:
    jvm: Any = spark._jvm
    context = spark.sparkContext._jsc
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        jvm.java.lang.Class.forName(name, False, loader)
    except _of_gateway():
        loader.addURL(jvm.java.io.File(str(path)).toURI().toURL())
        context.addJar(str(path))
        return True
    # By spark.jars, or attached by another context of this process, whose executors are gone.
    if path.name not in context.sc().listJars().mkString(" "):
        context.addJar(str(path))
    return True


@_entry("SparkContext._gateway, py4j.java_gateway.JavaClass", "asked for in SQL instead")
def java_class(name: str) -> Any:
    """A class of the driver's JVM by its full name; None without a JVM, or without the class."""
    if is_remote():
        return None
    from pyspark import SparkContext  # the package of a mere Connect client has none

    gateway: Any = SparkContext._gateway
    if gateway is None:
        return None
    from py4j.java_gateway import JavaClass

    found = functools.reduce(getattr, name.split("."), gateway.jvm)
    return found if isinstance(found, JavaClass) else None


@_entry("SharedState.activeStreamingQueries", "no query counts as active")
def active_queries_of_all(spark: SparkSession) -> Any:
    """The streaming queries of all sessions of the application, as the JVM has them."""
    # `spark.streams` has those of one session, and `foreachBatch` gives a copy of it.
    return java_session(spark).sharedState().activeStreamingQueries()


def first_session() -> SparkSession | None:
    """The application's first session, which lists its queries; None without one.

    Without the member there is none: the queries of an application are then not known.
    """
    try:
        return _first_session()
    except MissingMemberError:
        return None


@_entry("SparkSession._instantiatedSession", "no query counts as active", "both")
def _first_session() -> SparkSession | None:
    found: SparkSession | None = SparkSession._instantiatedSession
    return found


def is_complete(observation: Observation) -> bool | None:
    """Whether what an observation has observed can be read without waiting for an action.

    None without the members: its metrics are missing then, for to read them might wait for ever.
    """
    if type(observation).__module__.startswith("pyspark.sql.connect"):
        return True  # its metrics come with the result of the action
    try:
        return is_observed(observation)
    except MissingMemberError:
        return None


@_entry("Observation._jo", "the metrics of a cycle are missing")
def is_observed(observation: Observation) -> bool:
    """Whether the action of a classic observation has ended."""
    java: Any = observation._jo
    # Before it is used there is none, and to read it raises an error.
    return java is None or bool(java.future().isCompleted())


@_entry("SparkContext._jsc, LiveListenerBus.waitUntilEmpty", "what is told late is missing")
def deliver_events(spark: SparkSession, longest_s: float) -> None:
    """Wait until Spark has told its listeners all that has ended."""
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(round(longest_s * 1000))


def progress_since(query: Any, batch: int) -> list[Any]:
    """The progress of micro-batches of a query after one, oldest first, as far as Spark has it."""
    try:
        return _progress_since(query, batch)
    except MissingMemberError:
        return [one for one in query.recentProgress if one.batchId > batch]


@_entry("StreamingQuery._jsq", "all that Spark keeps is made an object of Python", "classic")
def _progress_since(query: Any, batch: int) -> list[Any]:
    found: list[Any] = []
    for one in reversed(query._jsq.recentProgress()):
        if one.batchId() <= batch:
            break
        found.insert(0, StreamingQueryProgress.fromJson(json.loads(one.json())))
    return found


# Spark Connect.


def session_of(query: Any) -> Any:
    """The session of a query under Spark Connect; None for other things, and without the member.

    The active session of the thread, which is the same in most programs, takes its place.
    """
    try:
        return _session_of(query)
    except MissingMemberError:
        return None


@_entry("connect.StreamingQuery._session", "the active session takes its place", "connect")
def _session_of(query: Any) -> Any:
    return query._session


@_entry("pyspark.sql.connect.session", "sources of files take Spark's default settings", "connect")
def active_connect_session() -> Any:
    """The active session of Spark Connect in this thread; None without one."""
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    return ConnectSession.getActiveSession()


@_entry("connect.DataFrame._plan", "each join begins a stage of its own", "connect")
def connect_plan(df: DataFrame) -> Any:
    """The plan of a DataFrame: nodes of the calls that have made it."""
    return df._plan


@_entry("LogicalPlan._plan_id", "columns of a join's result are new ones", "connect")
def plan_id(plan: Any) -> int:
    """The number of a plan, by which its columns are referred to."""
    return int(plan._plan_id)


@_entry("LogicalPlan._root_plan_id", "columns of a join's result are new ones", "connect")
def set_plan_id(plan: Any, number: int) -> None:
    """Give a plan the number of another one."""
    plan_id(plan)
    if not isinstance(plan._root_plan_id, int):
        raise AttributeError("_root_plan_id")
    plan._root_plan_id = number


@_entry("LogicalPlan._child, Join.left, Join.right", "columns of a result are new ones", "connect")
def inputs_of(plan: Any) -> list[Any]:
    """The plans that a plan may hand columns on of: both sides of a join, or the first input."""
    sides = vars(plan)
    found = [sides["left"], sides["right"]] if "right" in sides else [plan._child]
    return [one for one in found if one is not None]


@_entry("LogicalPlan", "each join begins a stage of its own", "connect")
def plans_in(plan: Any) -> list[Any]:
    """All plans that a plan is made of directly, each once."""
    kinds = tuple(base for base in type(plan).__mro__ if base.__name__ == "LogicalPlan")
    parts = [
        one
        for value in vars(plan).values()
        for one in (value if isinstance(value, list | tuple) else [value])
        if isinstance(one, kinds)
    ]
    return [*{id(one): one for one in parts}.values()]


@_entry("Join.how, connect.proto.Join", "columns of a join's result are new ones", "connect")
def sides_of(join: Any, like: DataFrame) -> tuple[DataFrame, DataFrame, bool]:
    """The sides of a join of Spark, and whether its result has rows that the left one lacks."""
    from pyspark.sql.connect.proto import Join  # which a classic session need not have

    made: Any = type(like)
    left, right = (made(side, like.sparkSession) for side in (join.left, join.right))
    return left, right, join.how in (Join.JOIN_TYPE_RIGHT_OUTER, Join.JOIN_TYPE_FULL_OUTER)


@_entry("SubqueryAlias._alias", "columns of a join's result are new ones", "connect")
def alias_of(plan: Any) -> str | None:
    """The name that an alias gives; None for another plan."""
    return str(plan._alias) if type(plan).__name__ == "SubqueryAlias" else None


@_entry("WithColumns._columnNames, WithColumnsRenamed._colsMap", "columns are new ones", "connect")
def assigned(plan: Any) -> list[str]:
    """The names that ``withColumns`` or ``withColumnsRenamed`` give to columns."""
    is_renaming = type(plan).__name__ == "WithColumnsRenamed"
    return [*(plan._colsMap.values() if is_renaming else plan._columnNames)]


@_entry("Project._columns, Column._expr and its kinds", "columns are new ones", "connect")
def selected(plan: Any) -> list[tuple[str, tuple[str, ...]]]:
    """Return what a projection selects, as a kind and texts.

    ``("all", ())`` is a star, ``("name", (text,))`` a column by its name, ``("alias", names)`` what
    is computed under names, and ``("other", ())`` something else.
    """
    return [*_selected(plan._columns)]


def _selected(columns: Any) -> Iterator[tuple[str, tuple[str, ...]]]:
    for column in columns:
        expression = column._expr
        kind = type(expression).__name__
        if kind == "UnresolvedStar" or (kind == "SQLExpression" and expression._expr == "*"):
            yield "all", ()
        elif kind == "SQLExpression":
            yield "name", (expression._expr,)
        elif kind == "ColumnReference":
            yield "name", (expression._unparsed_identifier,)
        elif kind == "ColumnAlias":
            yield "alias", tuple(expression._alias)
        else:
            yield "other", ()


@_entry("connect.DataFrame._col", "columns of a join's result are new ones", "connect")
def column_of(df: Any, name: str) -> Column:
    """A column of a DataFrame that refers to its plan; the server is not asked for the schema."""
    found: Column = df._col(name)
    return found


@_entry("LogicalPlan.to_proto", "a source is read again", "connect")
def serialized(df: DataFrame) -> Any:
    """The plan of a DataFrame as the protocol buffer that the client sends."""
    return connect_plan(df).to_proto(df.sparkSession.client).root


@_entry("connect.DataFrame._explain_string", "a source is read again", "connect")
def explained(df: Any) -> str:
    """Return the text that ``explain(extended=True)`` prints."""
    return str(df._explain_string(extended=True))
