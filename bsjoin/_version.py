"""The version of the package, the same in the driver and in every worker, and what they need."""

import re

__version__ = "0.1.0"

NEEDED = {
    "pyarrow": "18",
    "numpy": "2.0",
    "xxhash": "3.4",
    "cachetools": "5.5",
    "fsspec": "2024.6",
}
"""The packages that workers import, and the oldest version of each."""

OLDEST_SPARK = "4.1"


def is_older(version: str, least: str) -> bool:
    """Whether a version of a package or of Spark is older than another one, by two numbers.

    >>> is_older("4.0.2", "4.1"), is_older("4.10.0-SNAPSHOT", "4.1"), is_older("18.1", "18")
    (True, False, False)
    """
    return _numbers(version) < _numbers(least)


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)[:2]]
