"""The operators of a classic DataFrame's plan, typed.

Only what is known to give the same rows for the same input is described. Everything else has no
description: functions of Python and Scala, the time, subqueries, and whatever is not in the lists.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame

from bsjoin.spark import compat
from bsjoin.spark.leaves import listed

_LOGICAL = {
    "Aggregate", "Deduplicate", "Distinct", "Filter", "Join", "LocalRelation", "OneRowRelation",
    "Project", "Range", "Repartition", "RepartitionByExpression", "Sort", "SubqueryAlias", "Union",
    "View",
}  # fmt: skip
_READ = {"DataSourceV2Relation", "LogicalRelation"}
_EXPRESSIONS = {
    "Add", "AggregateExpression", "Alias", "And", "AttributeReference", "CaseWhen", "Cast",
    "Coalesce", "Concat", "Count", "Divide", "EqualNullSafe", "EqualTo", "GetStructField",
    "GreaterThan", "GreaterThanOrEqual", "If", "In", "IsNaN", "IsNotNull", "IsNull", "LessThan",
    "LessThanOrEqual", "Literal", "Lower", "Max", "Min", "Multiply", "Not", "Or", "Remainder",
    "SortOrder", "Subtract", "Sum", "UnaryMinus", "Upper",
}  # fmt: skip
_ALLOWED = {
    *(f"org.apache.spark.sql.catalyst.plans.logical.{name}" for name in _LOGICAL),
    *(f"org.apache.spark.sql.catalyst.expressions.{name}" for name in _EXPRESSIONS),
    *(f"org.apache.spark.sql.catalyst.expressions.aggregate.{name}" for name in _EXPRESSIONS),
    "org.apache.spark.sql.execution.datasources.LogicalRelation",
    "org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation",
}
# The values of other literals are not in the description.
_VALUES = {
    "boolean", "byte", "short", "integer", "long", "float", "double", "string", "date", "timestamp",
    "timestamp_ntz", "void",
}  # fmt: skip
_TIMES = {"CurrentDate", "CurrentTime", "CurrentTimestamp", "LocalTimestamp", "Now"}
_OF_USERS = {"PythonUDF", "ScalaUDF", "HiveSimpleUDF", "HiveGenericUDF", "PythonUDTF"}
_METADATA = {"metadata", "explicitMetadata", "nonInheritableMetadataKeys"}
_COLLATION = " COLLATE "
_HIDDEN = ("TRY_CAST(", "try_sum(", _COLLATION)

Described = Any


def operators_of(df: DataFrame) -> Described | None:
    """The analyzed plan without what differs from run to run; None if it may give other rows.

    The rows of a ``LocalRelation`` are not in it, and what is read is not: see
    :mod:`bsjoin.spark.leaves`.
    """
    tree = _tree(df)
    if not all(map(_is_certain, _nodes(tree))):
        return None
    # That of a cast, and of a sum, does not say what becomes of an error, and none says collations.
    if any(_name(node) in ("Cast", "Sum") for node in _nodes(tree)) and _is_ambiguous(df):
        return None
    types = [str(leaf.schema().sql()) for leaf in listed(compat.analyzed(df).collectLeaves())]
    return [_described(tree, {}), *(text for text in types if _COLLATION in text)]


def asks_for_the_time(df: DataFrame) -> bool:
    """Whether the plan uses the time, which Spark sets for each micro-batch of a stream."""
    return any(_name(node) in _TIMES for node in _nodes(_tree(df)))


def calls_functions_of_users(df: DataFrame) -> bool:
    """Whether the plan has one: whether it gives the same for the same row is not known."""
    return any(_name(node) in _OF_USERS for node in _nodes(_tree(df)))


def _tree(df: DataFrame) -> Any:
    """The analyzed plan: a list of nodes, each followed by its children, for every tree in it."""
    return json.loads(compat.analyzed(df).toJSON())


def _is_ambiguous(df: DataFrame) -> bool:
    """Whether the text of an expression has what its description lacks; one in a string counts."""
    left = [compat.analyzed(df)]
    while left:
        plan = left.pop()
        left += listed(plan.children())
        texts = (expression.sql() for expression in listed(plan.expressions()))
        if any(hidden in text for text in texts for hidden in _HIDDEN):
            return True
    return False


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Every operator and expression in a tree."""
    if isinstance(tree, dict):
        if "class" in tree:
            yield tree
        tree = list(tree.values())
    if isinstance(tree, list):
        for part in tree:
            yield from _nodes(part)


def _name(node: dict[str, Any]) -> str:
    return str(node["class"]).rpartition(".")[2]


def _is_certain(node: dict[str, Any]) -> bool:
    name = _name(node)
    if node["class"] not in _ALLOWED:
        return False
    if name == "Literal":
        kind = str(node["dataType"])
        return kind in _VALUES or kind.startswith("decimal(")
    if name == "Cast":
        return isinstance(node["dataType"], str)  # else Spark leaves it out of texts
    return name != "Join" or node.get("joinType") is not None


def _described(part: Any, columns: dict[str, int]) -> Any:
    """A part of the tree, its columns numbered in the order in which they appear."""
    if isinstance(part, list):
        return [_described(one, columns) for one in part]
    if not isinstance(part, dict):
        return part
    if "jvmId" in part:
        return columns.setdefault(f"{part['id']} {part['jvmId']}", len(columns))
    if "class" in part and _name(part) in _READ:
        part = {name: part[name] for name in ("class", "output")}
    if "class" in part and _name(part) == "View":
        part = {"class": part["class"]}
    return {
        name: _described(value, columns) for name, value in part.items() if name not in _METADATA
    }
