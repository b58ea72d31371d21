"""Files of a checkout that are no plain files: each is a finding with its name, at once."""

from __future__ import annotations

import ast
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from vapcheck import reading
from vapcheck.reading import RefusedFileError, TooLargeError, files_below, read_file

ROOT = Path(__file__).resolve().parents[2]
SECRET = "a secret of the machine"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository, and beside it a file of the machine."""
    (tmp_path / "secret.yaml").write_text(SECRET)
    folder = tmp_path / "checkout"
    (folder / "environments").mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    return folder


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2 << 30)


def listening(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        os.chdir(path.parent)  # a socket's path has at most 107 bytes
        server.bind(path.name)
        os.chdir(here)


KINDS: dict[str, tuple[Callable[[Path], object], str]] = {
    "nowhere": (lambda path: path.symlink_to("gone.yaml"), "link to nowhere"),
    "loop": (lambda path: path.symlink_to(path.name), "symbolic links"),
    "out": (lambda path: path.symlink_to("../../secret.yaml"), "out of the repository"),
    "absolute": (lambda path: path.symlink_to(path.parents[2] / "secret.yaml"), "out of the repository"),
    "device by link": (lambda path: path.symlink_to("/dev/zero"), "out of the repository"),
    "input by link": (lambda path: path.symlink_to("/dev/stdin"), "out of the repository"),
    "process by link": (lambda path: path.symlink_to("/proc/self/environ"), "out of the repository"),
    "folder": (lambda path: path.mkdir(), "directory"),
    "pipe": (os.mkfifo, "named pipe"),
    "socket": (listening, "not a regular file"),
    "huge": (sparse, "larger than"),
}


def out_through_a_folder(checkout: Path) -> Path:
    """A link to a folder that even is a repository of its own."""
    outside = checkout.parent / "outside"
    subprocess.run(["git", "init", "-q", str(outside)], check=True)
    (outside / "dev.yaml").write_text(SECRET)
    (checkout / "linked").symlink_to(outside)
    return checkout / "linked" / "dev.yaml"


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_read(checkout: Path, kind: str) -> None:
    make, why = KINDS[kind]
    path = checkout / "environments" / "dev.yaml"
    make(path)
    with pytest.raises(OSError, match=why) as caught:
        read_file(path, 1 << 20)
    assert caught.value.strerror
    assert SECRET not in str(caught.value)


def test_a_link_to_a_folder_outside(checkout: Path) -> None:
    with pytest.raises(RefusedFileError, match="out of the repository"):
        read_file(out_through_a_folder(checkout), 100)
    with pytest.raises(RefusedFileError, match="out of the repository"):
        list(files_below(checkout / "linked", (".yaml",)))


def test_links_within_a_repository_and_outside_of_any(checkout: Path) -> None:
    (checkout / "shared.yaml").write_text("x")
    (checkout / "environments" / "dev.yaml").symlink_to("../shared.yaml")
    assert read_file(checkout / "environments" / "dev.yaml", 10) == b"x"
    by_link = checkout.parent / "work"
    by_link.symlink_to(checkout)
    assert read_file(by_link / "environments" / "dev.yaml", 10) == b"x"
    volume = checkout.parent / "volume"
    volume.symlink_to("secret.yaml")
    assert read_file(volume, 100).decode() == SECRET


def test_pipes_are_read_where_a_person_names_them(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"x" * 100_000,))
    writer.start()
    assert read_file(pipe, 100_000, streams=True) == b"x" * 100_000
    writer.join()
    with pytest.raises(TooLargeError, match="larger than 1 MiB"):
        read_file("/dev/zero", 1 << 20, streams=True)
    script = (
        "import sys; from vapcheck.reading import read_file; print(read_file(sys.argv[1], 9, streams=True))"
    )
    command = [sys.executable, "-c", script, "/dev/stdin"]
    assert subprocess.check_output(command, input=b"abc", cwd=ROOT).strip() == b"b'abc'"


def test_the_limit_is_exact(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 10)
    assert read_file(path, 10) == b"x" * 10
    with pytest.raises(TooLargeError, match="9 bytes"):
        read_file(path, 9)


def test_a_file_that_changes_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x")
    real, calls = os.fstat, list[int]()

    def fstat(descriptor: int) -> os.stat_result:
        calls.append(descriptor)
        if len(calls) == 3:
            path.write_bytes(b"xyz")
        return real(descriptor)

    monkeypatch.setattr(reading.os, "fstat", fstat)
    with pytest.raises(RefusedFileError, match="changed while it was read"):
        read_file(path, 10)


def test_a_folder_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path.joinpath(*"abc")
    deep.mkdir(parents=True)
    (deep / "x.yaml").write_text("x")
    (tmp_path / "again").symlink_to(".")
    assert list(files_below(tmp_path, (".yaml",))) == [deep / "x.yaml"]
    monkeypatch.setattr(reading, "MAX_FILES", 4)
    with pytest.raises(RefusedFileError, match="more than 4 files"):
        list(files_below(tmp_path, (".yaml",)))


COMMANDS = {
    "validate": ["validate"],
    "validate one": ["validate", "environments/dev.yaml"],
    "show": ["show", "other"],
    "convert": ["convert", "environments/dev.yaml"],
    "convert folder": ["convert", "environments"],
    "policy check": ["policy", "check", "environments"],
    "render": ["render", "other", "-o", "rendered", "--check"],
    "report": ["report", "--base", "HEAD"],
    "promote": ["promote", "--check"],
    "catalog": ["catalog"],
    "simulate": ["simulate", "other", "--trace", "environments/dev.csv"],
    "submit": ["jobs", "submit", "--file", "environments/dev.yaml"],
}

WAITING = ("convert", "submit")
"""Those that read a pipe that a person names, and wait for it."""


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "socket"])
def test_every_verb_ends_with_a_sentence(checkout: Path, kind: str) -> None:
    """Files of that kind wherever a verb looks: none hangs, none shows a traceback or what is outside."""
    make, _ = KINDS[kind]
    text = (ROOT / "environments/homelab.yaml").read_text().replace("name: homelab", "name: other", 1)
    (checkout / "environments" / "other.yaml").write_text(text)
    subprocess.run(["git", "-C", str(checkout), "add", "-A"], check=True)
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run(["git", "-C", str(checkout), *identity, "commit", "-qm", "x"], check=True)
    places = ["environments/dev.yaml", "environments/dev.csv", "rendered/index.json"]
    for place in [*places, "policies/own.yaml", "catalog/own.yaml"]:
        (checkout / place).parent.mkdir(exist_ok=True)
        make(checkout / place)
    for name, words in COMMANDS.items():
        if kind == "pipe" and name in WAITING:
            continue
        command = [sys.executable, "-m", "gpupool.cli.main", *words]
        done = subprocess.run(
            command, cwd=checkout, capture_output=True, text=True, stdin=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        said = done.stdout + done.stderr
        assert "Traceback" not in said, (name, said)
        assert SECRET not in said, (name, said)


OWN = {
    "gpupool/client/local_token.py": "its own token, which it opens without following links",
    "gpupool/local": "folders that gpupool makes for itself, closed to others",
    "gpupool/findings/terminal.py": "/dev/null",
    "gpupool/programs": "Go sources and programs that came with gpupool",
    "gpupool/queue": "what came with gpupool, and the embedded database's folder",
    "gpupool/adopt/start/files.py": "what came with gpupool; new files",
    "gpupool/cli/main.py": "/dev/null",
    "gpupool/environment/catalog/load.py": "what came with gpupool",
    "gpupool/environment/schema/reference.py": "this checkout, for `make schema`",
    "gpupool/review/report/build.py": "the catalog that came with gpupool",
    "gpupool/infra": "Pulumi's state, locks and marks, which are not in the repository",
    "gpupool/generators/render.py": "files that it writes",
    "vapcheck/server/schema.py": "what came with it",
    "vapcheck/reading.py": "the one reader",
}
"""Modules that read for themselves, and what."""


def test_there_is_one_reader_of_other_peoples_files() -> None:
    outsiders, used = [], set[str]()
    for top in ("gpupool", "vapcheck"):
        for path in (ROOT / top).rglob("*.py"):
            name = path.relative_to(ROOT).as_posix()
            nodes = ast.walk(ast.parse(path.read_text()))
            lines = [node.lineno for node in nodes if isinstance(node, ast.Call) if _reads(node)]
            allowed = next((place for place in OWN if name == place or name.startswith(f"{place}/")), None)
            used |= {allowed} if lines and allowed else set()
            outsiders += [f"{name}:{line}" for line in lines if allowed is None]
    assert not outsiders
    assert sorted(set(OWN) - used) == []


def _reads(node: ast.Call) -> bool:
    """Whether it opens a file that is not one of the module's own, beside it or by the name of a constant."""
    if isinstance(node.func, ast.Name):
        return node.func.id == "open"
    if not isinstance(node.func, ast.Attribute) or node.func.attr not in ("read_text", "read_bytes", "open"):
        return False
    receiver = ast.unparse(node.func.value)
    own = (
        "__file__" in receiver
        or receiver.lstrip("_").isupper()
        or receiver.startswith(("_FOLDER / ", "_DIR / "))
    )
    return not own and receiver not in ("Database", "opener", "pool", "metadata", "tarfile")
