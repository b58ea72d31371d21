"""What a command of a pod or a job finds of ours when it looks: its own folder, and what all may read."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import uvloop

from gpupool.programs import local_command

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start another account's processes")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A folder that the commands' account gets to."""
    folders = [folder for folder in tmp_path.parents if folder.stat().st_uid == os.geteuid()]
    modes = [folder.stat().st_mode for folder in (tmp_path, *folders)]
    for folder, mode in zip((tmp_path, *folders), modes, strict=True):
        folder.chmod(stat.S_IMODE(mode) | 0o001)
    place = tmp_path / "home"
    local_command.make_folder(place)
    yield place
    for folder, mode in zip((tmp_path, *folders), modes, strict=True):
        folder.chmod(stat.S_IMODE(mode))


def output_of(home: Path, *argv: str, run_loop: Callable[..., list[str]] = asyncio.run) -> list[str]:
    async def run() -> list[str]:
        process, reader = await local_command.start(argv, local_command.environment(home), home)
        text = await reader.read()
        await process.wait()
        return text.decode().splitlines()

    return run_loop(run())


def test_nothing_of_the_callers_environment_is_there(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_SECRET_ACCESS_KEY", "GPUPOOL_NATS_URL", "KUBECONFIG", "SSH_AUTH_SOCK", "PYTHONPATH"):
        monkeypatch.setenv(name, "secret")
    names = {line.partition("=")[0] for line in output_of(home, "env")}
    assert names <= {"PATH", "LANG", "HOME", "TMPDIR"}
    assert f"HOME={home}" in output_of(home, "env")


def test_no_descriptor_is_left_open(home: Path, tmp_path: Path) -> None:
    """Also one that Python would pass on."""
    secret = tmp_path / "secret"
    secret.write_text("x")
    with secret.open() as stream:
        os.set_inheritable(stream.fileno(), True)
        assert not output_of(home, "sh", "-c", f"[ -e /dev/fd/{stream.fileno()} ] && echo open; :")
        assert output_of(home, "sh", "-c", f"cat <&{stream.fileno()} && echo read")[-1:] != ["read"]


@pytest.mark.parametrize("run_loop", [asyncio.run, uvloop.run])
def test_it_writes_to_its_own_folder_and_output(home: Path, run_loop: Callable[..., list[str]]) -> None:
    script = "pwd; echo a > b && cat b; echo c > /dev/stdout; echo d > /dev/stderr"
    lines = output_of(home, "sh", "-c", script, run_loop=run_loop)
    assert lines == [str(home), "a", "c", "d"]


@as_root
@pytest.mark.parametrize(
    "attempt",
    [
        "cat {secret}",
        "ls {closed}",
        "cat {closed}/readable",
        "cd {closed}",
        "tr '\\0' '\\n' < /proc/$PPID/environ",
        "ls -l /proc/$PPID/fd/",
        "kill -0 $PPID",
        "echo x > {closed}/new",
        "cat /etc/shadow",
        "chown 0 .",
        "setpriv --reuid 0 true",
    ],
)
def test_root_gives_away_none_of_its_rights(home: Path, tmp_path: Path, attempt: str) -> None:
    secret, closed = tmp_path / "kubeconfig", tmp_path / ".gpupool"
    secret.write_text("token")
    secret.chmod(0o600)
    closed.mkdir(mode=0o700)
    (closed / "readable").write_text("token")
    text = attempt.format(secret=secret, closed=closed)
    assert output_of(home, "sh", "-c", f"{text} 2>/dev/null; echo $?")[-1] != "0"


@as_root
def test_it_is_an_ordinary_account_for_good(home: Path) -> None:
    lines = output_of(home, "sh", "-c", "id -u; id -g; id -G; grep -E 'NoNewPrivs|CapEff' /proc/self/status")
    owner = local_command.account()
    assert owner is not None
    assert lines[:3] == [str(owner.pw_uid), str(owner.pw_gid), str(owner.pw_gid)]
    assert [line.split()[1] for line in lines[3:]] == ["0" * 16, "1"]


@as_root
def test_a_program_that_the_account_cannot_reach_is_named(home: Path, tmp_path: Path) -> None:
    """As the Python of a project in /root is."""
    closed = tmp_path / "root"
    closed.mkdir(mode=0o700)
    program = closed / "train"
    program.write_text("#!/bin/sh\necho trained\n")
    program.chmod(0o755)
    with pytest.raises(PermissionError, match=f"can't get to {program}; install it where everybody"):
        output_of(home, str(program))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{closed}:{os.environ['PATH']}")
        with pytest.raises(PermissionError, match=f"can't get to {program}"):
            output_of(home, "train")
    with pytest.raises(FileNotFoundError):
        output_of(home, "no-such-program-anywhere")
