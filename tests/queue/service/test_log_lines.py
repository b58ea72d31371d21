"""A log that can't be written: the service starts and goes on, and counts the lines."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from gpupool.environment import shipped
from gpupool.local.ports import free_port
from gpupool.queue.log_lines import LogLines

ROOT = Path(__file__).parents[3]
PATIENCE_S = 90


def full(folder: Path) -> int:
    return os.open("/dev/full", os.O_WRONLY)


def unread(folder: Path) -> int:
    reading, writing = os.pipe()
    os.close(reading)
    return writing


def closed(folder: Path) -> int:
    descriptor = os.open(folder / "closed", os.O_WRONLY | os.O_CREAT)
    os.close(descriptor)
    return descriptor


def unwritable(folder: Path) -> int:
    (folder / "unwritable").touch()
    return os.open(folder / "unwritable", os.O_RDONLY)


class Stream:
    """A stream of a descriptor, as far as LogLines asks."""

    def __init__(self, descriptor: int) -> None:
        self.fileno = lambda: descriptor

    def isatty(self) -> bool:
        return False


@pytest.mark.parametrize("opened", [full, unread, closed, unwritable])
def test_a_line_that_cannot_be_written_is_counted(opened: Callable[[Path], int], tmp_path: Path) -> None:
    lines, lost = LogLines(Stream(opened(tmp_path))), LogLines.lost
    print("one", "two", file=lines, flush=True)
    lines.write("three\nfour\nfi")
    assert LogLines.lost == lost + 3
    lines.write("ve\n")
    assert LogLines.lost == lost + 4


def test_lines_go_out_whole_and_go_on_after_one_that_was_cut(tmp_path: Path) -> None:
    path = tmp_path / "log"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    lines, room = LogLines(Stream(descriptor)), [True]
    write = os.write

    def short(descriptor: int, data: bytes) -> int:
        if not room.pop():
            raise OSError(28, "No space left on device")
        return write(descriptor, data[:4])

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "write", short)
        room[:] = [False, True]
        lines.write("a long line\n")
    lines.write("next \udcff\n")
    assert path.read_bytes() == b"a lo\nnext \\udcff\n"


@pytest.mark.parametrize("streams", [">/dev/full 2>/dev/full", ">&- 2>&-", "| true", "2>&1 | true"])
def test_a_service_runs_without_a_log(tmp_path: Path, streams: str) -> None:
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    command = shipped.command("gpupool.cli.main", "serve", str(ROOT / "environments/local.yaml"), "--dev")
    variables = {**os.environ, **shipped.variables(), "GPUPOOL_QUEUE_DIR": str(tmp_path / "queue")}
    variables.pop("GPUPOOL_DATABASE_URL", None)
    script = f'(echo $BASHPID > "$0"; exec "$@" --port {port}) {streams}'
    shell = subprocess.Popen(["bash", "-c", script, str(tmp_path / "pid"), *command], env=variables)
    try:
        with httpx2.Client(base_url=address, timeout=30) as client:
            _until(lambda: _ready(client), shell)
            lost = re.search(r"^gpupool_queue_log_lines_lost_total (\S+)", client.get("/metrics").text, re.M)
            assert lost is not None
            assert float(lost[1]) > 0
    finally:
        subprocess.run(["kill", (tmp_path / "pid").read_text().strip()], check=True)
        shell.wait(60)


def _ready(client: httpx2.Client) -> bool:
    try:
        return client.get("/readyz").status_code == 200
    except httpx2.TransportError:
        return False


def _until(wanted: Callable[[], bool], shell: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if wanted():
            return
        time.sleep(0.3)
    raise AssertionError("the service is not ready")
