"""The runtime of Spark's Python workers, which can run every join.

Two transfer modes: keys only (``keys_only.py``), or whole rows, in which several joins are one
stage (``whole_rows.py``). ``transfer.py`` chooses.
"""

from typing import Literal

from bsjoin.runtimes.python.driver.joins import apply, why_not
from bsjoin.runtimes.python.driver.routing import by_rule, why_not_by_rule

__all__ = ["apply", "by_rule", "name", "why_not", "why_not_by_rule"]

name: Literal["jvm", "python"] = "python"
