"""What a run keeps aside on the disk is there while it runs, and gone after it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.infra.disk_reserve import DiskFullError, DiskReserve
from gpupool.infra.pulumi_plugins.env import file_backend


def test_room_is_really_kept_and_given_back(tmp_path: Path) -> None:
    reserve = DiskReserve(file_backend(tmp_path), "gpupool", "trial")
    reserve.take(objects=20)
    kept = tmp_path / ".pulumi" / "trial.reserve"
    assert kept.stat().st_blocks * 512 >= 20 * 10 * 1024 * 5, "a sparse file keeps nothing"
    reserve.release()
    reserve.release()
    assert not kept.exists()


def test_a_folder_that_takes_nothing_is_named(tmp_path: Path) -> None:
    """A file where the folder should be is refused to root too."""
    (tmp_path / ".pulumi").write_text("")
    with pytest.raises(DiskFullError, match=rf"^{tmp_path}/\.pulumi: .*Make it writable and run this again"):
        DiskReserve(file_backend(tmp_path), "gpupool", "trial").take(objects=1)


def test_other_backends_keep_nothing() -> None:
    reserve = DiskReserve("s3://bucket", "gpupool", "trial")
    reserve.take(objects=1)
    reserve.release()
    assert reserve.message is None
