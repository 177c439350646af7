"""The process that copies files for a JVM, without one: what it answers, and when it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from stored_tables import numbered, put

import bsjoin
from bsjoin.storage import StorageLocation, versions

Service = subprocess.Popen[str]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    (tmp_path / "tmp").mkdir()
    # A library may print, and so does this module, which Python imports as it starts.
    (tmp_path / "sitecustomize.py").write_text(
        "import fsspec.implementations.local as local\n"
        "found = local.LocalFileSystem.ls\n"
        "local.LocalFileSystem.ls = lambda *a, **b: print('{}') or found(*a, **b)\n"
    )
    path = os.pathsep.join([str(tmp_path), str(Path(bsjoin.__file__).parents[1])])
    with subprocess.Popen(
        [sys.executable, "-m", "bsjoin.runtimes.python.worker.copy_service"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        encoding="utf-8",
        env={
            **os.environ,
            "PYTHONPATH": path,
            "TMPDIR": str(tmp_path / "tmp"),
            "PYTHONIOENCODING": "latin-1",  # as that of a host may be
        },
    ) as running:
        yield running
        running.kill()


def ask(service: Service, **request: Any) -> None:
    service.stdin.write(json.dumps(request, ensure_ascii=False) + "\n")
    service.stdin.flush()


def answer(service: Service, **request: Any) -> Any:
    ask(service, **request)
    return json.loads(service.stdout.readline())


def test_it_lists_versions_copies_files_and_tells_what_fails(
    service: Service, tmp_path: Path
) -> None:
    url = f"local://{tmp_path}/täble"
    location = StorageLocation.of(url)
    manifest = put(location, numbered(location, 7), 1, 1)
    found = answer(service, what="numbers", url=url)
    assert found["numbers"] == [1]
    content = versions.read(location, 1).decode()
    assert answer(service, what="manifest", url=url, number=1) == {"content": content}
    assert answer(service, what="manifest", url=url, number=2) == {"content": None}
    # A stamp tells a file from a later one of its name, as of a table that was built anew.
    path = tmp_path / "täble" / "versions" / "00000001.json"
    assert answer(service, what="numbers", url=url) == found
    os.utime(path, ns=(1, path.stat().st_mtime_ns + 1_000_000_000))
    assert answer(service, what="numbers", url=url)["stamps"].keys() == {"1"}
    assert answer(service, what="numbers", url=url) != found
    paths = []
    for name, size, checksum in manifest.files:
        file = {"name": name, "size": size, "checksum": checksum}
        path = Path(answer(service, what="file", url=url, **file)["path"])
        assert path.read_bytes() == (tmp_path / "täble" / name).read_bytes()
        paths.append(path)
    assert answer(service, what="keep", url=url, names=[]) == {}
    assert not any(path.exists() for path in paths)
    assert len([*tmp_path.glob("tmp/bsjoin-*/copies-*/copy-*")]) == len(manifest.files)
    # What fails is an answer that names the error.
    file = {"what": "file", "url": url, "name": "data/b/0.arrow", "size": 1, "checksum": "0"}
    (tmp_path / "loop").mkdir()
    (tmp_path / "loop" / "versions").symlink_to("versions")
    loop = f"local://{tmp_path}/loop"
    for request, error, text in (
        (file, "DamagedTableError", "is missing"),
        (file | {"name": "../secret"}, "StoreError", "stay in the folder"),
        ({"what": "manifest", "url": loop, "number": 1}, "StoreAccessError", loop),
        ({"what": "numbers", "url": "nosuchscheme://bucket/table"}, "StoreError", "nosuchscheme"),
    ):
        found = answer(service, **request)
        assert (found["error"], text in found["message"]) == (error, True), request


@pytest.mark.long
def test_it_ends_with_its_input_even_while_it_reads_from_the_remote(
    service: Service, tmp_path: Path
) -> None:
    (tmp_path / "table" / "versions").mkdir(parents=True)
    os.mkfifo(tmp_path / "table" / "versions" / "00000001.json")
    url = f"local://{tmp_path}/table"
    assert answer(service, what="numbers", url=url)["numbers"] == [1]
    ask(service, what="manifest", url=url, number=1)
    service.stdin.close()
    assert service.wait(60) == 0
    assert not [*tmp_path.glob("tmp/bsjoin-*/link-*")]
