"""What the documentation shows runs, and what it names is there."""

from __future__ import annotations

import contextlib
import dataclasses
import doctest
import importlib
import io
import json
import pkgutil
import re
import tomllib
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from documentation_stages import STAGES, Stage
from left_behind import State
from pyspark.sql import SparkSession

import bsjoin
import scheduling
from scheduling.__main__ import main as scheduling_main

ROOT = Path(__file__).resolve().parent.parent
PAGES = ["README.md", *sorted(p.relative_to(ROOT).as_posix() for p in ROOT.glob("docs/**/*.md"))]
MODULES = ["bsjoin", "scheduling"]
MODULES += [
    found.name
    for package in (bsjoin, scheduling)
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    if not found.name.endswith("__main__")
]
# Pages whose examples take seconds each: with databases, lakes, or several queries. The tutorial
# is a notebook, too, which runs by default.
LONG_PAGES = ["docs/tutorial.md"]
LONG_PAGES += [
    f"docs/how-to/{name}.md"
    for name in ("database", "lakes", "late-rows", "placement", "range-joins", "skew", "testing")
]
# Modules whose examples need a session and a shop; those of the first ones run by default.
OFTEN = ["bsjoin._join", "bsjoin.metrics.progress", "bsjoin.planner.chain", "bsjoin.table"]
WITH_SPARK = [
    *OFTEN,
    "bsjoin._cycles",
    "bsjoin._reporting",
    "bsjoin.functions",
    "bsjoin.kafka",
    "bsjoin.monitoring.dashboard",
    "bsjoin.monitoring.log",
    "bsjoin.monitoring.opentelemetry",
    "bsjoin.monitoring.prometheus",
]
PAGE_LINES = 200  # at most, in the README

_FENCE = re.compile(
    r"^(?:<!-- not run: (?P<reason>[^>]+) -->\n)?"
    r"```(?P<kind>\w+)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_INLINE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_OUTPUT = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True)
class Block:
    """A fenced block of a page; ``line`` is that of its first line of code."""

    kind: str
    code: str
    line: int
    title: str | None
    reason: str | None


def text_of(page: str) -> str:
    return (ROOT / page).read_text("utf-8")


def blocks(page: str) -> list[Block]:
    text = text_of(page)
    return [
        Block(
            found["kind"],
            found["code"],
            text.count("\n", 0, found.start("code")) + 1,
            found["title"],
            found["reason"],
        )
        for found in _FENCE.finditer(text)
    ]


def sessions() -> list[Any]:
    """The pages with Python to run."""
    return [
        pytest.param(page, marks=[pytest.mark.long] * (page in LONG_PAGES))
        for page in PAGES
        if any(block.kind == "python" for block in blocks(page))
    ]


class AnyResult(doctest.OutputChecker):
    """Compares what an example shows; an example that shows nothing may return anything."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return not want or super().check_output(want, got, optionflags)


@pytest.fixture
def stage(
    interpreted: None, spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Stage]:
    before = State.of(spark)
    with warnings.catch_warnings():
        yield Stage(spark, tmp_path, request)
    before.restore()  # a page may set an option


@pytest.mark.parametrize("page", sessions())
def test_the_python_of_a_page_runs_and_prints_what_the_page_shows(page: str, stage: Stage) -> None:
    for name in re.findall(r"<!-- setup: (\w+) -->", text_of(page)):
        STAGES[name](stage)
    run(page, blocks(page), stage)


def test_the_cells_of_the_notebook_run_and_print_what_its_page_shows(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one namespace, as in a kernel, with a folder of their own."""
    monkeypatch.setattr("tempfile.tempdir", str(stage.folder))
    cells = json.loads(text_of("examples/tutorial.ipynb"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    page = blocks("docs/tutorial.md")
    assert len(code) == 1 + sum(block.kind == "python" for block in page)
    exec(code.pop(0), stage.names)
    run(
        "examples/tutorial.ipynb",
        [
            dataclasses.replace(block, code=code.pop(0)) if block.kind == "python" else block
            for block in page
        ],
        stage,
    )
    assert (stage.folder / stage.names["folder"] / "customers").is_dir()


def run(page: str, examples: list[Block], stage: Stage) -> None:
    """Run the Python of a page, and compare what it prints with the text below."""
    printed = ""
    for block in examples:
        where = f"{page}:{block.line}"
        if block.kind == "python":
            code = compile("\n" * (block.line - 1) + stage.located(block.code), page, "exec")
            output = io.StringIO()
            if block.reason is None:
                with contextlib.redirect_stdout(output):
                    exec(code, stage.names)
            printed = output.getvalue()
        elif block.kind == "text" and printed:
            right = doctest.OutputChecker().check_output(block.code, printed, _OUTPUT)
            assert right, f"{where} shows\n{block.code}\nand it printed\n{printed}"
            printed = ""


def test_pages_leave_few_blocks_out_say_why_and_show_what_is_compared() -> None:
    shown = 0
    for page in PAGES:
        found, text = blocks(page), text_of(page)
        left = sum(block.reason is not None for block in found)
        assert left == len(re.findall(r"<!-- not run", text)) <= 1, page
        assert set(re.findall(r"<!-- setup: (\w+) -->", text)) <= STAGES.keys(), page
        shown += sum(block.kind == "text" for block in found)
    assert shown > 10


def test_code_that_a_sentence_begins_ends_in_its_paragraph() -> None:
    """Of a paragraph that was cut off inside of a command nothing else tells."""
    for page in PAGES:
        text = re.sub(r"(?ms)^```.*?^```$", "", text_of(page))
        assert [part for part in text.split("\n\n") if part.count("`") % 2] == [], page


def test_lines_begin_as_markdown_reads_them() -> None:
    """A comment ends a paragraph, and a list directly behind a paragraph is more of that."""
    for page in PAGES:
        text = re.sub(r"(?ms)^```.*?^```$", "", text_of(page))
        assert re.findall(r"(?m)^ *<!-- (?:figure|inverse|spread):.*", text) == [], page
        assert re.findall(r"(?m)^(?![-\s]|\d+\. ).+\n- .*", text) == [], page


# -- docstrings ------------------------------------------------------------------------------------


def examples(module: ModuleType) -> list[doctest.DocTest]:
    """The examples of a module; they know its names, and the public ones of its package."""
    package = importlib.import_module(module.__name__.rpartition(".")[0] or module.__name__)
    public = {name: getattr(package, name) for name in getattr(package, "__all__", ())}
    found = doctest.DocTestFinder(exclude_empty=True).find(
        module, module.__name__, globs=public | vars(module)
    )
    return [test for test in found if test.examples]


def run_examples(tests: list[doctest.DocTest], stage: Stage | None = None) -> str:
    """Run examples; what failed, as text."""
    runner = doctest.DocTestRunner(AnyResult(), verbose=False, optionflags=doctest.ELLIPSIS)
    failures = io.StringIO()
    for test in tests:
        if stage is not None:
            test.globs |= stage.names
            for example in test.examples:
                example.source = stage.located(example.source)
        runner.run(test, out=failures.write, clear_globs=False)
    return failures.getvalue()


def test_the_examples_in_the_docstrings_run() -> None:
    for name in MODULES:
        if name not in WITH_SPARK:
            assert run_examples(examples(importlib.import_module(name))) == "", name
    for package in ("bsjoin", "scheduling"):
        for path in (ROOT / package).rglob("*.py"):
            assert "doctest: +SKIP" not in path.read_text("utf-8"), path


@pytest.mark.parametrize(
    "modules",
    [OFTEN, pytest.param([n for n in WITH_SPARK if n not in OFTEN], marks=pytest.mark.long)],
    ids=["often", "others"],
)
def test_the_examples_in_the_docstrings_that_need_a_session_run(
    stage: Stage, modules: list[str]
) -> None:
    STAGES["shop"](stage)
    stage.places['.parquet("out")'] = f'.parquet("{stage.folder}/out")'
    orders = stage.names["orders"]
    query = bsjoin.join(orders, stage.names["customers"], "customer_id").writeStream.format("noop")
    table = bsjoin.BatchTable.build(stage.names["customers"], on="customer_id")
    stage.names |= {"bsjoin": bsjoin, "orders_stream": orders, "table": table}
    stage.names["query"] = query.start()
    stage.names["query"].processAllAvailable()
    for name in modules:
        tests = examples(importlib.import_module(name))
        assert tests, name
        assert run_examples(tests, stage) == "", name


# -- commands --------------------------------------------------------------------------------------


def commands(page: str) -> list[str]:
    """The lines of shell blocks, and what stands in the text as code and begins like a command."""
    shell = [block.code for block in blocks(page) if block.kind == "sh"]
    lines = [
        line.split("  #")[0].strip()
        for code in shell
        for line in code.replace("\\\n", "").splitlines()
    ]
    prose = _FENCE.sub("", text_of(page))
    known = r"make [a-z]|python -m |python3? \w+/|pip install |\.venv/bin/"
    lines += [code for code in _INLINE.findall(prose) if re.match(known, code)]
    return list(filter(None, lines))


def extras() -> dict[str, Any]:
    project = tomllib.loads(text_of("pyproject.toml"))["project"]
    return project["optional-dependencies"]


def check_command(command: str) -> None:
    """That what a command names is there: target, module, program, option, extra."""
    words = re.sub(r'^([A-Z_]+="[^"]*" )*', "", command).split()  # variables of the environment
    words[0] = words[0].rpartition("/bin/")[2]  # of a virtual one
    if words[0] == "make":
        assert re.search(rf"(?m)^{words[1]}:", text_of("Makefile")), command
        inner = re.search(r'ARGS="(run [\w-]+)', command)
        if inner:
            check_command(f"python -m benchmarks {inner[1]}")
    elif words[:3] == ["python", "-m", "pytest"]:
        assert (ROOT / words[3]).exists(), command
    elif words[:2] == ["python", "-m"]:
        module = ROOT / words[2].replace(".", "/")
        assert module.is_dir() or module.with_suffix(".py").exists(), command
        assert not module.is_dir() or (module / "__main__.py").exists(), command
        folder = module if module.is_dir() else module.parent
        code = "\n".join(path.read_text("utf-8") for path in folder.rglob("*.py"))
        for word in words[3:4]:
            assert word.isupper() or f'"{word}"' in code, f"{command}: {word}"
        check_options(words, code, command)
    elif words[0] == "python":
        program = ROOT / words[1]
        assert "*" in words[1] or "…" in words[1] or program.exists(), command
        check_options(words, program.read_text("utf-8"), command)
    elif words[:2] == ["pip", "install"]:
        for extra in re.findall(r"bsjoin\[([\w,]+)\]", command):
            assert set(extra.split(",")) <= extras().keys(), command
    else:
        known = (
            ".",
            "pip",
            "pre-commit",
            "python3",
            "sed",
            "spark-submit",
            "spark-sql",
            "venv-pack",
        )
        of_kafka = words[0].startswith("kafka-") and words[0].endswith(".sh")
        assert words[0] in known or of_kafka, command


def check_options(words: list[str], code: str, command: str) -> None:
    for option in words:
        if option.startswith("--"):
            assert f'"{option}"' in code, f"{command}: {option}"


def test_the_commands_of_pages_name_what_is_there() -> None:
    for page in PAGES:
        for command in commands(page):
            check_command(command)


def test_make_smoke_names_tests_that_are_there() -> None:
    lines = text_of("tests/capabilities.txt").splitlines()
    assert lines == sorted(set(lines))
    for line in lines:
        file, *names = line.split("::")
        assert not names or f"def {names[-1].partition('[')[0]}(" in text_of(file), line


def test_the_cluster_file_of_the_page_is_planned_by_the_commands_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = "docs/how-to/placement.md"
    files = [block for block in blocks(page) if block.title is not None]
    for block in files:
        (tmp_path / str(block.title)).write_text(block.code, "utf-8")
    monkeypatch.chdir(tmp_path)
    ran = [line.split()[3:] for line in commands(page) if f" {files[0].title}" in line]
    for arguments in ran:
        assert scheduling_main(arguments) == 0, capsys.readouterr().err
    assert len(ran) == 3


def test_the_page_on_placement_has_every_option() -> None:
    options = importlib.import_module("scheduling.spark").Placement
    section = text_of("docs/how-to/placement.md").partition("## Options of `Placement`")[2]
    shown = re.findall(r"(?m)^\| `(\w+)` \| ([^|]+) \|", section.partition("\n## ")[0])
    assert {name for name, _ in shown} == {one.name for one in dataclasses.fields(options)}
    for name, default in shown:
        value = getattr(options(), name)
        if isinstance(value, bool | float):  # the others are said in words
            told = str(value) if isinstance(value, bool) else f"{value:g}"
            assert default.strip("`") == told, name


# -- pages -----------------------------------------------------------------------------------------


def test_what_questions_quote_is_what_is_printed() -> None:
    code = "\n".join(path.read_text("utf-8") for path in (ROOT / "bsjoin").rglob("*.py"))
    quoted = re.findall(r'(?m)^## "([^"]+)"$', text_of("docs/faq.md"))
    assert len(quoted) > 5
    for part in "…".join(quoted).replace(":", "…").split("…"):
        assert part.strip() in code, part


def test_the_readme_is_short_and_its_links_lead_somewhere() -> None:
    text = text_of("README.md")
    assert len(text.splitlines()) <= PAGE_LINES
    links = re.findall(r"\]\(([^)#]+)(?:#[\w-]+)?\)", text)
    links += re.findall(r'(?:src|srcset)="([^"]+)"', text)
    assert len(links) > 10
    assert [link for link in links if not (ROOT / link).exists()] == []
    pages = "README.md", "docs/tutorial.md"  # one after the other, on one machine
    stored, others = ({*re.findall(r'"(/tmp/shop/\w+)"', text_of(page))} for page in pages)
    assert stored
    assert stored.isdisjoint(others)


def test_every_public_name_has_a_place_in_the_reference() -> None:
    shown = {
        name
        for page in PAGES
        if page.startswith("docs/reference/")
        for name in re.findall(r"(?m)^::: ([\w.]+)", text_of(page))
    }
    for package in (
        bsjoin,
        bsjoin.functions,
        bsjoin.kafka,
        bsjoin.monitoring,
        bsjoin.sources,
        scheduling,
        importlib.import_module("scheduling.spark"),
        importlib.import_module("scheduling.simulate"),
    ):
        for name in package.__all__:
            path = f"{package.__name__}.{name}"
            if path in ("bsjoin.BSJoinError", "scheduling.SchedulingError"):
                continue  # shown with the errors of the package
            if path in ("bsjoin.functions", "bsjoin.kafka", "bsjoin.monitoring", "bsjoin.sources"):
                continue  # pages of their own
            if path in ("scheduling.POLICIES", "scheduling.Clock"):
                continue  # a dictionary and a type
            assert path in shown, path


def test_the_site_needs_no_network() -> None:
    """No fonts, scripts or styles of other hosts: what the theme brings along is enough."""
    configuration = text_of("mkdocs.yml")
    assert "font: false" in configuration
    for page in ("mkdocs.yml", "docs/style.css", *PAGES):
        found = re.findall(r"(?:src|href|@import|!\[[^]]*\])\W*(https?://\S+)", text_of(page))
        assert found == [], page
    assert not re.search(r"https?://", configuration)
