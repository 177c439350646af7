"""Which folders no other machine can have, by a list of mounts."""

from __future__ import annotations

from pathlib import Path

import pytest

from bsjoin.host import file_systems, is_of_one_machine
from bsjoin.storage import StorageLocation
from bsjoin.storage.versioned_folder import Activation, VersionedFolder

MOUNTS = rb"""22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 master:2 - ext4 /dev/vda rw
30 27 0:40 / /data rw - nfs4 server:/data rw
31 30 8:1 / /data/local\040disk rw - xfs /dev/sdb rw
32 27 8:2 / /twice rw - xfs /dev/sdc rw
33 32 0:41 / /twice rw - fuse.s3fs s3fs rw
34 27 0:42 / /odd\134name rw - tmpfs none rw
35 27 0:43 / /new rw - unheardof none rw
37 27 8:3 / /below/t rw - xfs /dev/sdd rw
38 27 0:45 / /below rw - nfs4 server:/below rw
36 27 0:44 / /data
not a mount
"""
DEVICES = {b"/data/local disk": b"8:1", b"/odd\\name": b"0:42", b"/below": b"0:45"}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/", True), ("/tables/a", True), ("/database", True), ("/data", False),
        ("/data/tables/a", False), ("/data/local disk/a", True), ("/data/local", False),
        ("/twice/a", False), ("/odd\\name", True), ("/new/a", False), ("/proc/1", False),
        ("/below/t/a", False),  # its mount is hidden by a later one above it
    ],
)  # fmt: skip
def test_the_mount_that_a_path_is_below(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, found: bool
) -> None:
    (tmp_path / "mounts").write_bytes(MOUNTS)
    monkeypatch.setattr(file_systems, "_MOUNTS", str(tmp_path / "mounts"))
    monkeypatch.setattr("os.path.realpath", lambda path: path)
    device = next((DEVICES[at] for at in DEVICES if path.encode().startswith(at)), b"254:0")
    monkeypatch.setattr(file_systems, "_device_of", lambda _: device)
    assert is_of_one_machine(path) is found


def test_what_is_not_known_may_be_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_systems, "_MOUNTS", str(tmp_path / "missing"))
    assert not is_of_one_machine("/")


def test_a_link_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "shared")
    real = str((tmp_path / "shared").resolve()).encode()
    mounts = b"1 0 8:1 / / rw - ext4 a rw\n2 1 0:9 / " + real + b" rw - nfs b rw\n"
    (tmp_path / "mounts").write_bytes(mounts)
    monkeypatch.setattr(file_systems, "_MOUNTS", str(tmp_path / "mounts"))
    monkeypatch.setattr(file_systems, "_device_of", lambda _: b"8:1")
    assert is_of_one_machine(str(tmp_path))
    assert not is_of_one_machine(str(tmp_path / "link" / "table"))


def test_a_shared_folder_has_the_longer_delay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    activation = Activation(local_us=100_000, remote_us=10_000_000, tries=4, host_us=20_000)
    folder = VersionedFolder(StorageLocation.of(tmp_path), "", ".entry", 1000)
    monkeypatch.setattr(file_systems, "_device_of", lambda _: b"8:1")
    for kind, delay in ((b"nfs4", 100_000), (b"ext4", 20_000)):
        (tmp_path / "mounts").write_bytes(b"1 0 8:1 / / rw - " + kind + b" a rw\n")
        monkeypatch.setattr(file_systems, "_MOUNTS", str(tmp_path / "mounts"))
        found = folder.publish(lambda _: b"x", activation, clock=lambda: 7_000)
        assert found.activates_at_us == 7_000 + delay
