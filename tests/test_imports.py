"""Who may import whom; read from the sources, nothing is imported."""

from __future__ import annotations

import ast
import functools
import itertools
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = {
    path.relative_to(ROOT).as_posix(): ast.parse(path.read_text("utf-8"))
    for package in ("bsjoin", "scheduling")
    for path in sorted((ROOT / package).rglob("*.py"))
}
COLLECTS = {"collect", "toArrow", "toPandas", "toLocalIterator"}
SPARK = ("pyspark", "py4j")
DOCUMENTS = sorted(p.relative_to(ROOT).as_posix() for p in (ROOT / "docs").rglob("*.md"))


def imports(tree: ast.AST) -> Iterator[str]:
    """Every module that is imported when the code runs, wherever in it; absolute names."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and _is_type_checking(node.test):
            for other in node.orelse:
                yield from imports(ast.Module([other], []))
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports are not used here"
            assert node.module is not None
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif not isinstance(node, ast.expr):  # which has no statements
            yield from imports(node)


def _is_type_checking(test: ast.expr) -> bool:
    return ast.unparse(test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def under(folder: str) -> list[str]:
    return [path for path in SOURCES if path.startswith(folder + "/")]


def is_in(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(package + ".") for package in packages)


def offences(paths: list[str], packages: tuple[str, ...]) -> list[str]:
    return [
        f"{path} imports {module}"
        for path in paths
        for module in imports(SOURCES[path])
        if is_in(module, packages)
    ]


def layout() -> dict[str, list[str]]:
    """The parts of the packages and what each may import, from the table in the documentation."""
    text = (ROOT / "docs" / "repository-layout.md").read_text("utf-8")
    table = itertools.takewhile(
        lambda line: line.startswith("|"),
        itertools.dropwhile(lambda line: not line.startswith("| `"), text.splitlines()),
    )
    parts = {}
    for line in table:
        part, _, allowed = line.strip("|").split("|")
        parts |= dict.fromkeys(re.findall(r"`([^`]+)`", part), re.findall(r"`([^`]+)`", allowed))
    return parts


LAYOUT = layout()


def part_of(path: str) -> str:
    """The part that a file belongs to: the longest that holds it."""
    return max((part for part in LAYOUT if path.startswith(part)), key=len)


def file_of(module: str) -> str | None:
    """The file of one of our modules; None for any other name."""
    path = module.replace(".", "/")
    return next((p for p in (f"{path}.py", f"{path}/__init__.py") if p in SOURCES), None)


@functools.cache
def crossings() -> dict[tuple[str, str], list[str]]:
    """Which part imports which other one, and where."""
    found: dict[tuple[str, str], list[str]] = {}
    for path, tree in SOURCES.items():
        for module in imports(tree):
            target = file_of(module)
            # `from package import module` names both; the package alone is no module of its own.
            if target is None or is_empty(target):
                continue
            crossing = part_of(path), part_of(target)
            if crossing[0] != crossing[1]:
                found.setdefault(crossing, []).append(f"{path} imports {module}")
    return found


def is_empty(path: str) -> bool:
    """Whether a file has nothing but a docstring."""
    return all(isinstance(node, ast.Expr) for node in SOURCES[path].body)


def test_the_sources_are_found_wherever_they_stand() -> None:
    assert len(under("bsjoin")) > 20
    for part in LAYOUT:
        assert part in SOURCES or under(part.rstrip("/")), part


def test_a_part_imports_only_what_the_layout_allows() -> None:
    offences = [
        place
        for (importer, imported), places in crossings().items()
        if imported not in LAYOUT[importer]
        for place in places
    ]
    assert offences == []


def test_the_layout_allows_nothing_that_is_not_used() -> None:
    allowed = {(part, other) for part, others in LAYOUT.items() for other in others}
    # A row may name two modules; each may use less than the other.
    used = set(crossings())
    rows: dict[tuple[str, ...], set[str]] = {}
    for part, others in LAYOUT.items():
        rows.setdefault(tuple(others), set()).add(part)
    unused = [
        (part, other)
        for part, other in allowed
        if not any((twin, other) in used for twin in rows[tuple(LAYOUT[part])])
    ]
    assert unused == []


def test_the_layout_goes_from_the_bottom_to_the_top() -> None:
    order = list(LAYOUT)
    for part, others in LAYOUT.items():
        assert all(order.index(other) < order.index(part) for other in others), part


WITHOUT_SPARK = [
    "values",
    "host",
    "index",
    "storage",
    "cache",
    "sources",
    "partitioning",
    "runtimes/python/worker",
]


def test_what_workers_run_imports_no_spark() -> None:
    paths = [path for part in WITHOUT_SPARK for path in under(f"bsjoin/{part}")]
    paths += [path for path in under("scheduling") if path not in under("scheduling/spark")]
    assert offences(paths, SPARK) == []


def test_the_index_imports_numpy_and_host_folders_the_standard_library_only() -> None:
    for folder, more in (("index", ["numpy"]), ("host", ["bsjoin.errors"])):
        allowed = (f"bsjoin.{folder}", *more, *sys.stdlib_module_names)
        for path in under(f"bsjoin/{folder}"):
            assert [module for module in imports(SOURCES[path]) if not is_in(module, allowed)] == []


def test_pages_and_modules_that_are_named_exist() -> None:
    for path, tree in SOURCES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                check_references(node.value, path)
    for path in ("README.md", *DOCUMENTS):
        check_references((ROOT / path).read_text("utf-8"), path)


def check_references(text: str, where: str) -> None:
    for page in re.findall(r"docs/(?:decisions/)?[\w-]+\.md", text):
        assert (ROOT / page).exists(), f"{where} names {page}"
    for number in re.findall(r"docs/decisions/(\d{4})\b(?!-)", text):
        assert list((ROOT / "docs/decisions").glob(f"{number}-*.md")), f"{where}: page {number}"
    for module in re.findall(r":mod:`([\w.]+)`", text):
        assert file_of(module), f"{where} names {module}"


TO_THE_DRIVER = [
    f"bsjoin/{name}.py"
    for name in (
        "build/change_feed",
        "build/job",
        "build/merging",
        "metrics/reports",
        "spark/workers",
    )
]


def test_only_builds_changes_reports_and_the_check_of_the_workers_bring_rows_to_the_driver() -> (
    None
):
    found = [
        f"{path}:{node.lineno} calls {node.func.attr}"
        for path in under("bsjoin")
        if path not in TO_THE_DRIVER
        for node in ast.walk(SOURCES[path])
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in COLLECTS
    ]
    assert found == []


def test_a_worker_imports_no_spark() -> None:
    modules = "bsjoin, bsjoin.runtimes.python.worker.full_cache, bsjoin.storage, bsjoin.index"
    code = (
        "import sys, scheduling\n"
        "assert not {'bsjoin', 'yaml'} & {*sys.modules}\n"
        f"import {modules}\n"
        "found = {name.split('.')[0] for name in sys.modules} & {'pyspark', 'py4j', 'pandas'}\n"
        "assert not found, found\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
