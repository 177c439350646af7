"""Try bsjoin with other versions than the installed ones, all at the same time.

    python scripts/minimum.py

The oldest versions that pyproject.toml admits run ``tests/smoke.py`` and ``tests/smoke_pins.py``,
pins on a standalone cluster, in a virtual environment of their own. The versions of Spark between
the oldest and the installed one stand in front of the installed packages and run
``tests/smoke_compat.py``: every private member of Spark that bsjoin touches. Joins run with them in
``scripts/lakes.py``. ``scripts/matrix.py`` tries more combinations, and takes longer.
"""

import sys

from environments import installed, oldest, required, start

# What users install; the other extras are for working on bsjoin itself.
EXTRAS = (
    "spark", "adbc", "delta", "duckdb", "exact", "iceberg", "mysql", "opentelemetry", "postgresql",
    "redis", "scheduling",
)  # fmt: skip
SPARK_BETWEEN = ("pyspark==4.2.*",)


def main() -> int:
    """Run the programs; 1 if one of them failed."""
    own = installed(oldest(required(*EXTRAS)), apart=True)
    between = [installed([version], apart=False) for version in SPARK_BETWEEN]
    if own is None or None in between:
        sys.exit(
            "minimum: these versions cannot be installed together (see pip's message above): "
            "raise those that are named in pyproject.toml."
        )
    oldest_python = str(own / "bin" / "python")
    running = [start(oldest_python, program) for program in ("smoke.py", "smoke_pins.py")]
    for folder in filter(None, between):
        running.append(start(sys.executable, "smoke_compat.py", folder))
    for process in running:
        print(process.communicate()[0], end="", flush=True)
    return int(any(process.returncode for process in running))


if __name__ == "__main__":
    sys.exit(main())
