"""Files that are made once: whole, made anew when half-made, and read without their mark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.data.kept import kept, write_stream


def test_a_folder_is_made_once_and_a_half_made_one_anew(tmp_path: Path) -> None:
    made: list[Path] = []

    def make(folder: Path) -> None:
        made.append(folder)
        (folder / f"{len(made)}.txt").touch()
        if len(made) == 1:
            raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        kept(tmp_path / "new" / "files", make)
    for _ in range(2):
        folder = kept(tmp_path / "new" / "files", make)
    assert len(made) == 2
    assert [file.name for file in folder.glob("*.txt")] == ["2.txt"]


@pytest.mark.parametrize("files", [1, 2])
def test_a_stream_has_its_rows_in_files_and_is_read_as_a_folder(tmp_path: Path, files: int) -> None:
    batches = [pa.table({"k": range(begin, begin + 5)}) for begin in (0, 5)]
    folder = kept(tmp_path / "stream", lambda place: write_stream(place, batches, files))
    listed = sorted(folder.glob("*.parquet"), key=lambda file: file.stat().st_mtime)
    assert [file.stem for file in listed] == [f"000{n}-{p}" for n in (0, 1) for p in range(files)]
    assert pq.read_table(folder)["k"].to_pylist() == list(range(10))
