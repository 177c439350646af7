"""Who may import whom; read from the sources, nothing is imported."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCES = {
    path.relative_to(ROOT).as_posix(): ast.parse(path.read_text("utf-8"))
    for package in ("bsjoin", "scheduling")
    for path in sorted((ROOT / package).rglob("*.py"))
}
COLLECTS = {"collect", "toArrow", "toPandas", "toLocalIterator"}
SPARK = ("pyspark", "py4j")


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
        else:
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


def test_the_sources_are_found() -> None:
    assert len(under("bsjoin")) > 20
    assert under("bsjoin/index")
    assert under("bsjoin/store")
    assert under("bsjoin/cache")
    assert under("scheduling")


def test_imports_are_found_wherever_they_stand() -> None:
    code = """
import a.b
if TYPE_CHECKING:
    import hidden
else:
    import c
def f():
    from d import e
    try:
        import g
    except ImportError:
        pass
"""
    assert list(imports(ast.parse(code))) == ["a.b", "c", "d", "d.e", "g"]


def test_spark_is_imported_in_one_place_only() -> None:
    others = [path for path in under("bsjoin") if path not in under("bsjoin/_spark")]
    assert offences(others, SPARK) == []


def test_the_index_imports_numpy_and_itself_only() -> None:
    allowed = ("numpy", "bsjoin.index", *sys.stdlib_module_names)
    for path in under("bsjoin/index"):
        assert [module for module in imports(SOURCES[path]) if not is_in(module, allowed)] == []


@pytest.mark.parametrize(
    ("package", "forbidden"),
    [
        (
            "bsjoin/hotspot",
            ("bsjoin.cache", "bsjoin.shared", "bsjoin._spark", "bsjoin.table", "bsjoin._api"),
        ),
        ("bsjoin/store", ("bsjoin.cache", "bsjoin._spark", "bsjoin.table", "bsjoin._api")),
        ("bsjoin/cache", ("bsjoin._spark", "bsjoin.table", "bsjoin._api")),
        (
            "bsjoin/shared",
            ("bsjoin.cache", "bsjoin.sources", "bsjoin.store", "bsjoin._spark", "bsjoin._plan"),
        ),
        ("bsjoin/sources", ("bsjoin.cache", "bsjoin.shared", "bsjoin.table", "bsjoin._api")),
        ("scheduling", ("bsjoin",)),
    ],
)
def test_a_package_does_not_import_what_lies_above_it(
    package: str, forbidden: tuple[str, ...]
) -> None:
    assert offences(under(package), forbidden) == []


def test_scheduling_is_imported_in_one_place_only() -> None:
    others = [path for path in under("bsjoin") if path != "bsjoin/_spark/placing.py"]
    assert offences(others, ("scheduling",)) == []
    core = [path for path in under("scheduling") if path not in under("scheduling/spark")]
    assert offences(core, (*SPARK, "scheduling.spark")) == []


def test_only_the_build_brings_rows_to_the_driver() -> None:
    found = [
        f"{path}:{node.lineno} calls {node.func.attr}"
        for path in under("bsjoin")
        if path != "bsjoin/_spark/build.py"
        for node in ast.walk(SOURCES[path])
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in COLLECTS
    ]
    assert found == []


@pytest.mark.parametrize("module", ["bsjoin", "bsjoin.cache.full", "bsjoin.store", "bsjoin.index"])
def test_a_worker_imports_no_spark(module: str) -> None:
    code = (
        f"import sys, {module}\n"
        "found = {name.split('.')[0] for name in sys.modules} & {'pyspark', 'py4j', 'pandas'}\n"
        "assert not found, found\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
