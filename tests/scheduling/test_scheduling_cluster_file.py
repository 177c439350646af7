"""Cluster files, price tables, and the command line."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from scheduling_samples import RANKS

from scheduling import Price, Resources, Worker, errors, priced
from scheduling.__main__ import main
from scheduling.cluster_file import parse, read, read_prices

TABLE_4 = """
prices:
  - {pattern: "xl*", tier: xl, price_per_s: 0.007778, slots: 4, cpu_cores: 12, memory_mb: 16384}
  - {pattern: "m*", tier: m, price_per_s: 0.002417, slots: 4, cpu_cores: 4, memory_mb: 8192}
  - {pattern: "l*", tier: l, price_per_s: 0.004861, slots: 4, cpu_cores: 8, memory_mb: 12288}
workers:
WORKERS
operators:
  - {name: map, parallelism: 20, cpu_cores: 0.5, memory_mb: 512}
"""


@pytest.fixture
def table_4(tmp_path: Path) -> str:
    rows = [
        f"  - {{id: {name}, tuples: 1000000, cost: {0.1 + rank / 100}}}"
        for rank, name in enumerate(RANKS)
    ]
    file = tmp_path / "cluster.yaml"
    file.write_text(TABLE_4.replace("WORKERS", "\n".join(sorted(rows))))
    return str(file)


def test_plan_prints_the_replay_of_table_3(
    table_4: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", "--policy", "cetsa", "--seconds", "205", table_4]) == 0
    told = capsys.readouterr().out
    assert "map-0   m3      m     rank 1 of 11 by $ a tuple (1e-07)" in told
    assert "cetsa: 20 tasks on 5 of 11 workers" in told
    assert "rent 0.016973 $/s; for 205 s: rent 3.479" in told
    assert "next best: gs-bfd, 0.016973 $/s (as much)" in told


def test_explain_prints_ranks_and_the_cost_of_every_policy(
    table_4: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", table_4]) == 0
    told = capsys.readouterr().out
    assert told.index("m3") < told.index("m2") < told.index("m4") < told.index("l1")
    assert "round-robin           11       0         0.057807" in told
    assert "random" in told


def test_a_job_without_room_is_exit_status_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "small.yaml"
    file.write_text(
        "workers: [{id: a, slots: 1, cpu_cores: 1, memory_mb: 100}]\n"
        "operators: [{name: map, parallelism: 2}]\n"
    )
    assert main(["plan", str(file)]) == 1
    assert "(none now)" in capsys.readouterr().out
    assert main(["explain", str(file)]) == 0
    assert "CETSA and LBA-CE are round robin" in capsys.readouterr().out


def test_a_wrong_policy_or_file_is_exit_status_2(
    table_4: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", "--policy", "cesta", table_4]) == 2
    assert "Did you mean 'cetsa'?" in capsys.readouterr().err
    assert main(["plan", str(tmp_path / "none.yaml")]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_the_module_can_be_run(table_4: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "scheduling", "plan", table_4],
        check=True,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert "lba-ce: 20 tasks" in done.stdout


WORKER = {"id": "a", "slots": 2, "cpu_cores": 4, "memory_mb": 4096}
MAP = {"name": "map", "parallelism": 2, "cpu_cores": 1, "to": {"sink": 100}}
SINK = {"name": "sink", "preferred": ["a"], "input_bytes": 10}


def test_everything_in_a_file_is_read() -> None:
    cluster = parse(
        {
            "delta": 0.5,
            "workers": [
                {**WORKER, "host": 7, "cpu": 0.5, "memory": 0.25, "busyness": 0.1, "tuples": 9},
                {**WORKER, "id": "b", "delta": 0.9, "price_per_s": 3},
            ],
            "operators": [MAP, SINK],
            "cost": {"price_per_byte": 0.5, "weights": [0.2, 0.3, 0.5]},
        }
    )
    a, b = cluster.snapshot.workers
    assert (a.host, a.delta, a.price_per_s, b.delta, b.price_per_s) == ("7", 0.5, 1.0, 0.9, 3)
    assert cluster.snapshot.utilisation["a"].memory == 0.25
    assert cluster.snapshot.tuples == {"a": 9}
    assert cluster.snapshot.busyness == {"a": 0.1}
    assert [edge.bytes_per_s for edge in cluster.graph.edges] == [50, 50]
    assert cluster.graph.by_id["sink-0"].preferred == ("a",)
    assert cluster.cost.weights == (0.2, 0.3, 0.5)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "the file is []: give names with values"),
        ({"workers": []}, "lacks 'operators'"),
        ({"worker": [], "operators": []}, "no field 'worker'. Did you mean 'workers'?"),
        ({"workers": "a", "operators": []}, "workers is 'a': give a list"),
        ({"workers": [{"slots": 2}], "operators": []}, "workers[0] lacks 'id'"),
        ({"workers": ["a"], "operators": []}, "'a' has 0 slots"),
        ({"workers": [{**WORKER, "slots": 1.5}], "operators": []}, "slots=1.5 of worker 'a'"),
        (
            {"workers": [{**WORKER, "memory_mb": "8GB"}], "operators": []},
            "worker 'a': memory_mb='8GB': give a finite number, at least 0, without quotes",
        ),
        (
            {"workers": [{**WORKER, "cpu_cores": float("nan")}], "operators": []},
            "worker 'a': cpu_cores=nan: give a finite number",
        ),
        ({"workers": [], "operators": []}, "there are no workers: give one or more"),
        ({"workers": [WORKER], "operators": []}, "there are no operators: give one or more"),
        (
            {"workers": [WORKER], "operators": [{"name": "x", "parallelism": 0}]},
            "operator 'x': parallelism=0: give 1, 2, 3, ...",
        ),
        ({"workers": [{**WORKER, "cpu": 2}], "operators": []}, "cpu=2"),
        ({"workers": [WORKER, WORKER], "operators": []}, "'a' is there twice"),
        ({"workers": [WORKER], "operators": [{"name": "x", "to": 3}]}, "to of operator 'x' is 3"),
        ({"workers": [WORKER], "operators": [MAP]}, "sends to 'sink', which is no operator"),
        ({"workers": [WORKER], "operators": [], "cost": {"weights": [1]}}, "weights=(1,)"),
        (
            {"workers": ["x"], "operators": [], "prices": [{"pattern": "m*", "price_per_s": 1}]},
            "no row of the price table matches worker 'x'",
        ),
    ],
)
def test_what_cannot_be_used_is_an_error_that_says_why(content: object, message: str) -> None:
    with pytest.raises(errors.ArgumentError) as caught:
        parse(content)
    assert message in str(caught.value)


def test_an_error_in_a_file_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text("workers: [")
    with pytest.raises(errors.ClusterFileError, match=r"cluster\.yaml: is no YAML"):
        read(file)
    file.write_text("workers: []")
    with pytest.raises(
        errors.ClusterFileError, match=r"cluster\.yaml, line 1: the file lacks 'operators'"
    ):
        read(file)


def test_the_prices_of_a_cluster_file_are_read_alone(table_4: str, tmp_path: Path) -> None:
    rows = read_prices(table_4)
    assert [row.pattern for row in rows] == ["xl*", "m*", "l*"]
    assert rows[1] == Price("m*", 0.002417, 4, "m", Resources(4, 8192))
    file = tmp_path / "prices.yaml"
    file.write_text('prices: [{pattern: "*", price_per_s: 2}]')
    assert read_prices(file) == (Price("*", 2.0),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("workers: []", "the file lacks 'prices'"),
        ("price: []", "has no field 'price'. Did you mean 'prices'?"),
        ("prices: 3", "prices is 3: give a list"),
        ("prices: [{price_per_s: 1}]", "prices[0] lacks 'pattern'"),
        (
            "prices: [{pattern: a, price_per_s: -1}]",
            "price_per_s=-1 of pattern 'a': give a finite",
        ),
        (
            "prices: [{pattern: a, price_per_s: '2 $'}]",
            "prices[0]: price_per_s='2 $' of pattern 'a': give a finite number, at least 0",
        ),
        ("prices: [", "is no YAML"),
        ("", "the file is empty: give names with values"),
    ],
)
def test_prices_that_cannot_be_used_are_an_error_that_names_the_file(
    tmp_path: Path, text: str, message: str
) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text(text)
    with pytest.raises(errors.ClusterFileError) as caught:
        read_prices(file)
    assert message in str(caught.value)
    assert str(file) in str(caught.value)


def test_without_a_table_every_worker_costs_the_same() -> None:
    workers = tuple(Worker(name, Resources(1, 1), 1) for name in "ab")
    assert priced(workers, []) == workers
    assert {worker.price_per_s for worker in workers} == {1.0}


def test_the_first_row_that_matches_counts_by_id_or_host() -> None:
    worker = Worker("3", Resources(1, 1), 1, host="10.0.0.7", tier="old")
    table = [Price("x*", 9), Price("10.0.*", 2, slots=5, capacity=Resources(2, 2)), Price("*", 1)]
    found = priced([worker], table)[0]
    assert (found.price_per_s, found.slots, found.tier) == (2, 5, "old")
    assert found.capacity == Resources(2, 2)
    with pytest.raises(errors.ArgumentError, match="pattern is empty"):
        Price("")
    with pytest.raises(errors.ArgumentError, match="price_per_s=-1"):
        Price("*", -1)


def test_the_example_can_be_planned_explained_and_simulated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["example"]) == 0
    example = capsys.readouterr().out
    shipped = Path(__file__).parents[2] / "examples" / "cluster.yaml"
    assert shipped.read_text() == example
    file = tmp_path / "cluster.yaml"
    file.write_text(example)
    assert main(["plan", str(file)]) == 0
    assert main(["explain", str(file)]) == 0
    assert capsys.readouterr().err == ""
    run = ["simulate", str(file), "--policy", "lba-ce", "--policy", "cetsa", "--seconds", "40"]
    assert main([*run, "--seeds", "2"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "20000 rows/s ± 20 % for 40 s, 2 seeds; mean ± half of the range"
    lba_ce = next(line for line in told if line.startswith("lba-ce")).split()
    assert float(lba_ce[3]) == pytest.approx(20_000, rel=0.05)
    assert main([*run, "--seeds", "0"]) == 2
    assert "--seeds 0" in capsys.readouterr().err
    # One run has no interval.
    assert main([*run[:4], "--seconds", "10", "--seeds", "1"]) == 0
    alone = capsys.readouterr().out
    assert alone.startswith("20000 rows/s ± 20 % for 10 s, one seed\n")
    assert "nan" not in alone
    assert "±" not in "".join(alone.splitlines()[1:])


def test_operators_in_a_cycle_are_refused() -> None:
    operator = {"cpu_cores": 1, "memory_mb": 1}
    content = {
        "workers": [{"id": "w", "slots": 1, "cpu_cores": 1, "memory_mb": 1}],
        "operators": [
            {"name": "a", "to": {"b": 1}, **operator},
            {"name": "b", "to": {"c": 1}, **operator},
            {"name": "c", "to": {"b": 1}, **operator},
        ],
    }
    with pytest.raises(errors.ClusterFileError, match=r"b -> c -> b.*remove"):
        parse(content)
    content["operators"] = [{"name": "a", "to": {"a": 1}, **operator}]
    with pytest.raises(errors.ClusterFileError, match="a -> a"):
        parse(content)


def test_a_policy_that_falls_back_to_another_warns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(TABLE_4.replace("WORKERS", "  - m2\n  - m3\n  - l1\n  - l2\n  - l3"))
    assert main(["plan", "--policy", "lba-ce", str(file)]) == 0
    assert "warning: lba-ce fell back to round-robin: no worker has" in capsys.readouterr().err
    assert main(["plan", "--policy", "spread", str(file)]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("text", ["1e-5", "1.0e-5", "1E-05", ".00001", "0.1e-4"])
def test_exponents_are_numbers_whatever_yaml_takes_them_for(tmp_path: Path, text: str) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text(f"prices: [{{pattern: a, price_per_s: {text}}}]")
    assert read_prices(file)[0].price_per_s == pytest.approx(1e-5)


LINES = """\
delta: 0.8
prices:
  - {pattern: "*", price_per_s: 2, slots: 4, cpu_cores: 4, memory_mb: 8192}
workers:
  - id: a
    tuples: 5
    cost: 0.5
  - {id: b, reserved: {slots: 1,
     cpu_cores: 1}}
operators:
  - name: map
    parallelism: 2
    cpu_cores: 0.5
    to:
      sink: 100
  - {name: sink, preferred: [a]}
cost:
  weights: [0.5, 0.3, 0.2]
"""


@pytest.mark.parametrize(
    ("old", "new", "line", "field"),
    [
        ("delta: 0.8", "delta: 80", 1, "delta=80"),
        ("delta: 0.8", "delta: .nan", 1, "delta=nan"),
        ("delta: 0.8", "delta: null", 1, "delta=None"),
        ("slots: 4", "slots: four", 3, "prices[0]: slots='four'"),
        ("price_per_s: 2", "price_per_s: .inf", 3, "price_per_s=inf"),
        ("price_per_s: 2", "price_pers: 2", 3, "has no field 'price_pers'"),
        ("id: a", "id: null", 5, "workers[0]: id=None"),
        ("id: a", "id: yes", 5, "workers[0]: id=True"),
        ("tuples: 5", "tuples: -5", 6, "worker 'a': tuples=-5"),
        ("tuples: 5", "tuples: yes", 6, "worker 'a': tuples=True"),
        ("cost: 0.5", "cost: .nan", 7, "worker 'a': cost=nan"),
        ("cost: 0.5", "cost: 1 $", 7, "worker 'a': cost='1 $'"),
        ("cost: 0.5", "delta: 2", 7, "delta=2 of worker 'a'"),
        ("cost: 0.5", "tuples: 2", 7, "'tuples' is there twice"),
        ("cost: 0.5", "cpu: 2", 7, "cpu=2"),
        ("cost: 0.5", "memory: 0.5", 7, "memory is in use"),
        ("cost: 0.5", "slots: 0", 5, "worker 'a' has 0 slots"),
        ("cpu_cores: 1}", "cpu_cores: x}", 9, "reserved of worker 'b': cpu_cores='x'"),
        ("id: b", "id: a", 8, "the worker 'a' is there twice"),
        ("name: map", "nam: map", 11, "no field 'nam'"),
        ("name: map", "name: sink", 16, "the operator 'sink' is there twice"),
        ("parallelism: 2", "parallelism: 2.5", 12, "operator 'map': parallelism=2.5"),
        ("cpu_cores: 0.5", "cpu_cores: -1", 13, "cpu_cores=-1"),
        ("sink: 100", "sink: many", 15, "to of operator 'map': sink='many'"),
        ("sink: 100", "sank: 100", 15, "sends to 'sank', which is no operator"),
        ("sink: 100", "map: 100", 15, "map -> map"),
        ("preferred: [a]", "preferred: a", 16, "operator 'sink': preferred='a'"),
        ("preferred: [a]", "preferred: [null]", 16, "operator 'sink': preferred=(None,)"),
        ("[0.5, 0.3, 0.2]", "[0.5, 0.3]", 18, "weights=(0.5, 0.3)"),
        ("[0.5, 0.3, 0.2]", "[0.5, 0.3, a]", 18, "cost: weights=(0.5, 0.3, 'a')"),
    ],
)
def test_an_error_of_a_file_names_the_line_and_the_field(
    tmp_path: Path, old: str, new: str, line: int, field: str
) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(LINES)
    assert [worker.id for worker in read(file).snapshot.workers] == ["a", "b"]
    file.write_text(LINES.replace(old, new, 1))
    with pytest.raises(errors.ClusterFileError) as caught:
        read(file)
    assert str(caught.value).startswith(f"{file}, line {line}: ")
    assert field in str(caught.value)
    assert pickle.loads(pickle.dumps(caught.value)).line == caught.value.line == line


@pytest.mark.parametrize(
    "text", ["delta: &a [*a]", "a: &a {b: *a}", "[" * 3_000, "delta: 2020-15-01"]
)
def test_a_file_that_is_no_tree_of_values_is_an_error(tmp_path: Path, text: str) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(text)
    with pytest.raises(errors.ClusterFileError, match=r"cluster\.yaml"):
        read(file)


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("[fe80::1]/3", True),
        ("[fe80::1]*", True),
        ("[fe80::?]/*", True),
        ("[fe80::2]*", False),
        ("[!x]*", False),
        ("f", False),
        ("*", True),
        (r"\[fe80::1\]/3", False),
    ],
)
def test_the_brackets_of_an_ipv6_host_stand_for_themselves(pattern: str, matches: bool) -> None:
    worker = Worker("[fe80::1]/3", Resources(1, 1), 1, host="[fe80::1]")
    assert Price(pattern, 2.0).matches(worker) is matches
    assert Price("a.b", 2.0).matches(Worker("a.b", Resources(1, 1), 1))
    assert not Price("a.b", 2.0).matches(Worker("axb", Resources(1, 1), 1))
