"""The runtime of Spark's generated code: look-ups in stored tables, entirely in the JVM.

A join becomes a generator (:mod:`bsjoin.runtimes.jvm.joins`), which the planner of the jar
(:mod:`bsjoin.runtimes.jvm.jar`) answers from the same files as the Python workers.
"""

from typing import Literal

from bsjoin.runtimes.jvm.attach import attached, lacks_planner
from bsjoin.runtimes.jvm.joins import apply, why_not
from bsjoin.runtimes.jvm.routing import by_rule, why_not_by_rule

__all__ = ["apply", "attached", "by_rule", "lacks_planner", "name", "why_not", "why_not_by_rule"]

name: Literal["jvm", "python"] = "jvm"
