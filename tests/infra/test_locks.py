"""Every form in which an engine's lock can be left over is removed, and no lock of a living one is.

The files are real ones, written as the engine writes them, and so are the processes that they name.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gpupool.infra import locks
from gpupool.infra.locks import LockedError, clear_locks
from gpupool.infra.pulumi_plugins.env import file_backend

UUID = "4d0c7a9e-0000-4000-8000-000000000000"
FINAL = f"{UUID}.json"
TEMPORARY = f"{UUID}.json.187a4c2c4a1b2c3d.tmp"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / ".pulumi" / "locks" / "organization" / "gpupool" / "trial"
    made.mkdir(parents=True)
    return made


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is called as the engine, at work on the backend in `tmp_path`."""
    program = tmp_path / "pulumi"
    shutil.copy(shutil.which("sleep") or "/bin/sleep", program)
    variables = {"PULUMI_BACKEND_URL": file_backend(tmp_path)}
    process = subprocess.Popen([str(program), "600"], env=variables)
    yield process
    process.kill()
    process.wait()


def clear(folder: Path) -> int:
    return clear_locks(file_backend(folder.parents[4]), "gpupool", "trial")


def content(pid: int, since: datetime | None = None, host: str | None = None) -> str:
    """What the engine writes."""
    at = (since or datetime.now(UTC)).isoformat().replace("+00:00", "Z")
    name = host or socket.gethostname()
    return json.dumps({"pid": pid, "username": "someone", "hostname": name, "timestamp": at})


def put(folder: Path, name: str, text: str, age: float = 60.0) -> Path:
    """A file that was last changed `age` seconds ago."""
    path = folder / name
    path.write_text(text)
    os.utime(path, (time.time() - age, time.time() - age))
    return path


def dead() -> int:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    return gone.pid


WRONG: dict[str, str] = {
    "empty": "",
    "half": '{"pid":4711,"username":"some',
    "words": '{"pid":"x"}',
    "a boolean": '{"pid":true,"username":"a","hostname":"b","timestamp":"2026-01-01T00:00:00Z"}',
    "no process": '{"pid":0,"username":"a","hostname":"b","timestamp":"2026-01-01T00:00:00Z"}',
    "too large": '{"pid":4294967297,"username":"a","hostname":"b","timestamp":"2026-01-01T00:00:00Z"}',
    "no text": '{"pid":1,"username":["a"],"hostname":{},"timestamp":"2026-01-01T00:00:00Z"}',
    "no time": '{"pid":1,"username":"a","hostname":"b","timestamp":"yesterday"}',
    "a list": "[1]",
    "null": "null",
    "deep": "[" * 100_000,
    "binary": "\x00\x00\x00\x00",
}


@pytest.mark.parametrize("name", [FINAL, TEMPORARY])
@pytest.mark.parametrize("form", WRONG)
def test_what_names_no_owner_is_removed_once_it_has_settled(folder: Path, form: str, name: str) -> None:
    path = put(folder, name, WRONG[form])
    assert clear(folder) == 1
    assert not path.exists()


@pytest.mark.parametrize("name", [FINAL, TEMPORARY])
def test_a_fresh_one_is_waited_for(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be one that is just being written: what is looked at again is the file as it is then."""
    path = put(folder, name, "", age=0.0)
    looked: list[bool] = []

    def pause(seconds: float) -> None:
        looked.append(path.exists())
        put(folder, name, "", age=60.0 if len(looked) == 3 else 0.0)

    monkeypatch.setattr(locks.time, "sleep", pause)
    assert clear(folder) == 1
    assert looked == [True, True, True]


def test_a_server_whose_clock_runs_ahead_does_not_block_runs_for_ever(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "SETTLED_SECONDS", 0.3)
    put(folder, TEMPORARY, "", age=-86400.0)
    assert clear(folder) == 1


@pytest.mark.parametrize("name", [FINAL, TEMPORARY])
def test_the_lock_of_a_dead_process_is_removed_at_once(folder: Path, name: str) -> None:
    path = put(folder, name, content(dead()), age=0.0)
    assert clear(folder) == 1
    assert not path.exists()


def test_a_zombie_process_is_dead(folder: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    try:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        put(folder, FINAL, content(process.pid))
        assert clear(folder) == 1
    finally:
        process.wait()


def test_an_id_that_was_given_to_another_program_meanwhile_holds_nothing(folder: Path) -> None:
    put(folder, FINAL, content(os.getpid(), datetime.now(UTC) - timedelta(days=30)))
    assert clear(folder) == 1


def test_a_living_owner_is_named(
    folder: Path, engine: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One called like the engine counts whatever the clock says: somebody may have set it."""
    monkeypatch.setattr(locks, "PATIENCE_SECONDS", 0.3)
    monkeypatch.setattr(locks, "SETTLED_SECONDS", 0.3)
    for pid, since in ((os.getpid(), datetime.now(UTC)), (engine.pid, datetime(2020, 1, 1, tzinfo=UTC))):
        path = put(folder, FINAL, content(pid, since))
        with pytest.raises(LockedError) as refused:
            clear(folder)
        for part in (f"process {pid} of someone on {socket.gethostname()}", str(since.year), str(path)):
            assert part in str(refused.value)
        assert path.exists()


def test_a_lock_of_another_machine_is_never_called_left_over(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "PATIENCE_SECONDS", 0.3)
    monkeypatch.setattr(locks, "SETTLED_SECONDS", 0.3)
    path = put(folder, FINAL, content(dead(), host="elsewhere"))
    with pytest.raises(LockedError, match="of someone on elsewhere"):
        clear(folder)
    assert path.exists()


def test_a_spoilt_lock_stays_while_an_engine_may_hold_it(
    folder: Path, engine: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "PATIENCE_SECONDS", 0.3)
    monkeypatch.setattr(locks, "SETTLED_SECONDS", 0.3)
    path = put(folder, FINAL, '{"pid":"x"}', age=0.0)
    with pytest.raises(
        LockedError, match=rf"does not name .* and process {engine.pid} may hold it"
    ) as refused:
        clear(folder)
    assert str(path) in str(refused.value)
    assert path.exists()
    # An engine that is younger than the file, or of another backend, can't hold it.
    put(folder, FINAL, '{"pid":"x"}', age=3600.0)
    assert clear(folder) == 1


def test_an_engine_of_another_backend_holds_nothing_here(
    tmp_path: Path, engine: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "SETTLED_SECONDS", 0.3)
    other = tmp_path / "other" / ".pulumi" / "locks" / "organization" / "gpupool" / "trial"
    other.mkdir(parents=True)
    put(other, FINAL, "", age=0.0)
    assert clear(other) == 1


def test_a_lock_that_can_not_be_read_is_named(folder: Path) -> None:
    """A link to itself is refused to root too, unlike a file without permissions."""
    path = folder / FINAL
    path.symlink_to(path)
    with pytest.raises(LockedError, match=r"can't be read \(Too many levels") as refused:
        clear(folder)
    assert f"{path}: locks trial" in str(refused.value)
    assert "remove the file" in str(refused.value)


def test_what_is_no_lock_is_named_and_left(folder: Path) -> None:
    path = put(folder, "notes.txt", "mine")
    with pytest.raises(LockedError, match=r"notes\.txt: not a Pulumi lock.*Move it elsewhere"):
        clear(folder)
    assert path.read_text() == "mine"


def test_what_does_not_lock_is_left_alone(folder: Path) -> None:
    """The engine passes over folders and sidecars."""
    (folder / FINAL).mkdir()
    sidecar = put(folder, f"{UUID}.json.attrs", "")
    assert clear(folder) == 0
    assert (folder / FINAL).is_dir()
    assert sidecar.exists()


def test_other_backends_have_no_lock_files() -> None:
    assert locks.locks("s3://bucket", "gpupool", "prod") == []
    assert locks.locks("", "gpupool", "prod") == []
