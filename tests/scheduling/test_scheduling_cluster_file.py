"""Cluster files, price tables, and the command line."""

from __future__ import annotations

import io
import pickle
from pathlib import Path

import pytest

from benchmarks.papers.scheduling.published import PRIORITY
from scheduling import Price, Reserved, Resources, Worker, errors, policy, priced
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
def file(tmp_path: Path) -> Path:
    """Where a test writes a cluster."""
    return tmp_path / "cluster.yaml"


def test_the_command_line_replays_table_3(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        f"  - {{id: {name}, tuples: 1000000, cost: {0.1 + rank / 100}}}"
        for rank, name in enumerate(PRIORITY)
    ]
    file.write_text(TABLE_4.replace("WORKERS", "\n".join(sorted(rows))))
    assert main(["plan", "--policy", "cetsa", "--seconds", "205", str(file)]) == 0
    told = capsys.readouterr().out
    assert "map-0   m3      m     rank 1 of 11 by $ a tuple (1e-07)" in told
    assert "cetsa: 20 tasks on 5 of 11 workers" in told
    assert "rent 0.016973 $/s; for 205 s: rent 3.479" in told
    assert "next best: gs-bfd, 0.016973 $/s (as much)" in told
    assert main(["explain", str(file)]) == 0
    told = capsys.readouterr().out
    assert told.index("m3") < told.index("m2") < told.index("m4") < told.index("l1")
    assert "round-robin           11       0         0.057807" in told
    assert main(["plan", "--policy", "cesta", str(file)]) == 2
    assert "Did you mean 'cetsa'?" in capsys.readouterr().err
    assert [row.pattern for row in read_prices(file)] == ["xl*", "m*", "l*"]
    assert read_prices(file)[1] == Price("m*", 0.002417, 4, "m", Resources(4, 8192))


def test_what_the_command_line_says_of_jobs_that_do_not_fit_or_have_no_history(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(
        "workers: [{id: a, slots: 1, cpu_cores: 1, memory_mb: 100}]\n"
        "operators: [{name: map, parallelism: 2}]\n"
    )
    assert main(["plan", str(file)]) == 1
    assert "(none now)" in capsys.readouterr().out
    assert main(["explain", str(file)]) == 0
    assert "CETSA and LBA-CE are round robin" in capsys.readouterr().out
    file.write_text(TABLE_4.replace("WORKERS", "  - m2\n  - m3\n  - l1\n  - l2\n  - l3"))
    assert main(["plan", "--policy", "lba-ce", str(file)]) == 0
    assert "warning: lba-ce fell back to round-robin: no worker has" in capsys.readouterr().err
    assert main(["plan", "--policy", "spread", str(file)]) == 0
    assert capsys.readouterr().err == ""
    assert main(["plan", str(file.with_name("none.yaml"))]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_everything_in_a_file_is_read() -> None:
    worker = {"id": "a", "slots": 2, "cpu_cores": 4, "memory_mb": 4096}
    others = {"reserved": {"slots": 1, "cpu_cores": 2.0, "memory_mb": 1024}}
    known = {"host": 7, "cpu": 0.5, "memory": 0.25, "busyness": 0.1, "tuples": 9}
    cluster = parse(
        {
            "delta": 0.5,
            "workers": [
                {**worker, **known},
                {**worker, **others, "id": "b", "delta": 0.9, "price_per_s": 3},
            ],
            "operators": [
                {"name": "map", "parallelism": 2, "cpu_cores": 1, "to": {"sink": 100}},
                {"name": "sink", "preferred": ["a"], "input_bytes": 10},
            ],
            "cost": {"price_per_byte": 0.5, "weights": [0.2, 0.3, 0.5]},
        }
    )
    a, b = cluster.snapshot.workers
    assert (a.host, a.delta, a.price_per_s, b.delta, b.price_per_s) == ("7", 0.5, 1.0, 0.9, 3)
    assert cluster.snapshot.utilisation["a"].memory == 0.25
    assert cluster.snapshot.tuples == {"a": 9}
    assert cluster.snapshot.busyness == {"a": 0.1}
    assert cluster.snapshot.reserved == {"b": Reserved(1, Resources(2, 1024))}
    assert [edge.bytes_per_s for edge in cluster.graph.edges] == [50, 50]
    assert cluster.graph.by_id["sink-0"].preferred == ("a",)
    assert cluster.cost.weights == (0.2, 0.3, 0.5)
    assert len(policy("cetsa").plan(cluster.graph, cluster.snapshot).assignments) == 3


def test_a_value_of_a_worker_goes_before_that_of_its_price_alone() -> None:
    row = {"pattern": "*", "price_per_s": 2, "tier": "m", "slots": 4, "cpu_cores": 4}
    operators = [{"name": "map"}]
    workers = [
        {"id": "a", "disk_mb": 9},
        {"id": "b", "cpu_cores": 2},
        {"id": "c", "price_per_s": 3},
    ]
    file = {"prices": [row | {"memory_mb": 8}], "workers": workers, "operators": operators}
    a, b, c = parse(file).snapshot.workers
    assert (a.capacity, b.capacity, c.capacity) == (
        Resources(4, 8, 9),
        Resources(2, 8),
        Resources(4, 8),
    )
    assert [(one.price_per_s, one.slots, one.tier) for one in (a, b, c)] == [
        (2, 4, "m"),
        (2, 4, "m"),
        (3, 4, "m"),
    ]
    with pytest.raises(errors.ClusterFileError, match=r"cpu_cores .* give cpu_cores and memory_mb"):
        parse(file | {"prices": [row]})


def test_the_file_s_prices_of_bytes_and_what_others_reserve_count(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(
        "workers:\n"
        "  - {id: a, slots: 1, cpu_cores: 4, memory_mb: 9, price_per_s: 1}\n"
        "  - {id: b, slots: 1, cpu_cores: 4, memory_mb: 9, price_per_s: 1}\n"
        "  - {id: c, slots: 2, cpu_cores: 8, memory_mb: 9, price_per_s: 3,\n"
        "     reserved: {cpu_cores: 5}}\n"
        "operators:\n"
        "  - {name: read, cpu_cores: 0.5, rate_in_per_s: 1000, to: {write: 50}}\n"
        "  - {name: write, cpu_cores: 0.5, rate_in_per_s: 1000}\n"
        "cost: {price_per_byte: 0.1, weights: [0.5, 0.5, 0]}\n"
    )
    # Two workers cost 2 $/s and 5 $/s for the bytes, the large one 3 $/s.
    for name in ("exact", "local-search"):
        assert main(["plan", "--policy", name, str(file)]) == 0
        assert "rent 3 $/s" in capsys.readouterr().out
    # A worker of which others have a part runs a job as one that is as large as the rest.
    told = list[str]()
    for size in (
        "slots: 3, cpu_cores: 4, reserved: {slots: 1, cpu_cores: 3}",
        "slots: 2, cpu_cores: 1",
    ):
        file.write_text(
            f"delta: 1\nworkers: [{{id: a, memory_mb: 9, {size}}}]\n"
            "operators: [{name: map, parallelism: 2, cpu_cores: 0.4}]\n"
        )
        run = ["simulate", str(file), "--policy", "spread", "--seconds", "20", "--seeds", "1"]
        assert main(run) == 0
        told.append(capsys.readouterr().out)
    assert told[0] == told[1]


def test_the_first_price_that_matches_counts_by_id_or_host(tmp_path: Path) -> None:
    worker = Worker("3", Resources(1, 1), 1, host="10.0.0.7", tier="old")
    assert priced([worker], []) == (worker,)
    table = [Price("x*", 9), Price("10.0.*", 2, slots=5, capacity=Resources(2, 2)), Price("*", 1)]
    found = priced([worker], table)[0]
    assert (found.price_per_s, found.slots, found.tier) == (2, 5, "old")
    assert found.capacity == Resources(2, 2)
    with pytest.raises(errors.ArgumentError, match="pattern is empty"):
        Price("")
    file = tmp_path / "prices.yaml"
    for text in ("1e-5", "1.0e-5", "1E-05", ".00001", "0.1e-4"):  # texts to YAML 1.1, some of them
        file.write_text(f"prices: [{{pattern: a, price_per_s: {text}}}]")
        assert read_prices(file) == (Price("a", 1e-5),)
    wrong = {
        "workers: []": "the file lacks 'prices'",
        "price: []": "has no field 'price'. Did you mean 'prices'?",
        "prices: 3": "prices is 3: give a list",
        "prices: [{price_per_s: 1}]": "prices[0] lacks 'pattern'",
        "prices: [{pattern: a, price_per_s: -1}]": "price_per_s=-1 of pattern 'a': give a finite",
        "prices: [": "is no YAML",
        "": "the file is empty: give names with values",
    }
    for text, message in wrong.items():
        file.write_text(text)
        with pytest.raises(errors.ClusterFileError) as caught:
            read_prices(file)
        assert message in str(caught.value)
        assert str(file) in str(caught.value)


def test_the_example_can_be_planned_explained_and_simulated(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["example"]) == 0
    example = capsys.readouterr().out
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
    for command in ("plan", "explain", "simulate"):
        for seconds in ("nan", "inf", "-5", "0"):
            assert main([command, str(file), "--seconds", seconds]) == 2
            assert f"--seconds {seconds}: give a number above 0" in capsys.readouterr().err
    # One run has no interval.
    assert main([*run[:4], "--seconds", "10", "--seeds", "1"]) == 0
    alone = capsys.readouterr().out
    assert alone.startswith("20000 rows/s ± 20 % for 10 s, one seed\n")
    assert "nan" not in alone
    assert "±" not in "".join(alone.splitlines()[1:])
    # A terminal that has no such character.
    plain = io.TextIOWrapper(io.BytesIO(), "ascii")
    monkeypatch.setattr("sys.stdout", plain)
    assert main([*run[:4], "--seconds", "10", "--seeds", "1"]) == 0
    plain.flush()
    assert plain.buffer.getvalue().startswith(rb"20000 rows/s \xb1 20 %")


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

# By line: what is replaced there by what, and the field that the error names.
WRONG = [
    (1, "delta: 0.8", "delta: 80", "delta=80"),
    (1, "delta: 0.8", "deltas: 0.8", "no field 'deltas'. Did you mean 'delta'?"),
    (3, "price_per_s: 2", "price_per_s: .inf", "price_per_s=inf"),
    (5, 'pattern: "*"', "pattern: x", "no row of the price table matches worker 'a'"),
    (5, "id: a", "id: null", "workers[0]: id=None"),
    (5, "id: a", "host: a", "workers[0] lacks 'id'"),
    (6, "tuples: 5", "tuples: -5", "worker 'a': tuples=-5"),
    (7, "cost: 0.5", "cost: 1 $", "worker 'a': cost='1 $'"),
    (7, "cost: 0.5", "tuples: 2", "'tuples' is there twice"),
    (5, "cost: 0.5", "slots: 0", "worker 'a' has 0 slots"),
    (9, "cpu_cores: 1}", "cpu_cores: x}", "reserved of worker 'b': cpu_cores='x'"),
    (8, "id: b", "id: a", "the worker 'a' is there twice"),
    (16, "name: map", "name: sink", "the operator 'sink' is there twice"),
    (12, "parallelism: 2", "parallelism: 2.5", "operator 'map': parallelism=2.5"),
    (14, "to:\n      sink: 100", "to: 3", "to of operator 'map' is 3"),
    (15, "sink: 100", "sank: 100", "sends to 'sank', which is no operator"),
    (15, "sink: 100", "7: 100", "sends to '7', which is no operator"),
    (15, "sink: 100", "map: 100", "map -> map"),
    (16, "preferred: [a]", "preferred: a", "operator 'sink': preferred='a'"),
    (18, "[0.5, 0.3, 0.2]", "[0.5, 0.3, a]", "cost: weights=(0.5, 0.3, 'a')"),
]


def test_an_error_of_a_file_names_the_line_and_the_field(file: Path) -> None:
    file.write_text(LINES)
    assert [worker.id for worker in read(file).snapshot.workers] == ["a", "b"]
    for line, old, new, field in WRONG:
        file.write_text(LINES.replace(old, new, 1))
        with pytest.raises(errors.ClusterFileError) as caught:
            read(file)
        assert str(caught.value).startswith(f"{file}, line {line}: "), (new, str(caught.value))
        assert field in str(caught.value)
    assert pickle.loads(pickle.dumps(caught.value)).line == caught.value.line == 18
    whole = {
        "workers: [": "is no YAML",
        "workers: []": "line 1: the file lacks 'operators'",
        "{workers: a, operators: []}": "workers is 'a': give a list",
        "{workers: [], operators: []}": "there are no workers: give one or more",
        LINES.partition("operators:")[0] + "operators: []": "there are no operators: give one",
    }
    for text, message in whole.items():
        file.write_text(text)
        with pytest.raises(errors.ClusterFileError, match=message.replace("[", r"\[")):
            read(file)


def test_operators_in_a_cycle_are_refused() -> None:
    names = {"a": "b", "b": "c", "c": "b"}
    operators = [{"name": name, "to": {to: 1}} for name, to in names.items()]
    worker = {"id": "w", "slots": 1, "cpu_cores": 1, "memory_mb": 1}
    numbered = [{"name": 1, "to": {2: 5}}, {"name": 2}]  # a number is the text that shows it
    assert len(parse({"workers": [worker], "operators": numbered}).graph.edges) == 1
    with pytest.raises(errors.ClusterFileError, match=r"b -> c -> b.*remove"):
        parse({"workers": [worker], "operators": operators})
