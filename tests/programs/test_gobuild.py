"""Builds: atomic, locked, with progress, and with clear errors."""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
import threading
import time
from pathlib import Path

import pytest

from gpupool.programs import gobuild
from gpupool.programs.failures import LocalError
from gpupool.programs.gobuild import Build
from tests.required_programs import absent

needs_go = pytest.mark.skipif(shutil.which("go") is None, reason="no Go on this machine")


def module(folder: Path, body: str, go: str = "1.21") -> Path:
    """A Go module without imports, which builds in a moment."""
    folder.mkdir()
    (folder / "go.mod").write_text(f"module example.com/tiny\n\ngo {go}\n")
    (folder / "go.sum").write_text("")
    (folder / "main.go").write_text(f"package main\n\nvar name string\n\nfunc main() {{ {body} }}\n")
    return folder


def job(source: Path, target: Path) -> Build:
    return Build("tiny v1", source, "-s -w -X main.name=moon", {"example.com/tiny": target}, 100)


@needs_go
def test_a_build_installs_the_program_and_reports_progress(tmp_path: Path) -> None:
    target = tmp_path / "cache" / "tiny-v1" / "tiny"
    said: list[str] = []
    gobuild.build(job(module(tmp_path / "src", "println(name)"), target), said.append)
    done = subprocess.run([target], capture_output=True, text=True, check=True)
    assert done.stderr == "moon\n"
    assert re.fullmatch(r"building tiny v1: \d+ s \(usually about 2 min\)", said[0])
    assert [path.name for path in target.parent.iterdir()] == ["tiny"], "nothing else is left behind"


@needs_go
def test_programs_of_one_module_are_built_by_one_command(tmp_path: Path) -> None:
    source = module(tmp_path / "src", "")
    for name in ("sun", "star"):
        (source / name).mkdir()
        (source / name / "main.go").write_text(f'package main\n\nfunc main() {{ println("{name}") }}\n')
    targets = {f"example.com/tiny/{name}": tmp_path / "bin" / f"{name}-v1" / name for name in ("sun", "star")}
    said: list[str] = []
    gobuild.build(Build("sun, star v1", source, "-s -w", targets, 100), said.append)
    assert said[0].startswith("building sun, star v1: 0 s")
    for name in ("sun", "star"):
        target = targets[f"example.com/tiny/{name}"]
        assert subprocess.run([target], capture_output=True, text=True, check=True).stderr == f"{name}\n"
        assert [path.name for path in target.parent.iterdir()] == [name], "nothing else is left behind"


@needs_go
def test_of_several_only_what_is_missing_is_built(tmp_path: Path) -> None:
    there = tmp_path / "bin" / "sun-v1" / "sun"
    there.parent.mkdir(parents=True)
    there.write_text("as it was")
    target = tmp_path / "bin" / "tiny-v1" / "tiny"
    targets = {"example.com/tiny/sun": there, "example.com/tiny": target}
    source = module(tmp_path / "src", "println(name)")  # which has no package `sun`
    gobuild.build(Build("sun, tiny v1", source, "-s -w", targets, 100), lambda _: None)
    assert there.read_text() == "as it was"
    assert target.exists()


@pytest.mark.parametrize(("given", "used"), [(None, "400"), ("50", "50")])
def test_the_compiler_collects_its_garbage_seldom_unless_told_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str | None, used: str
) -> None:
    fake = tmp_path / "bin" / "go"
    fake.parent.mkdir()
    fake.write_text(
        '#!/bin/sh\n[ "$1" = version ] && echo go version go1.99.0 && exit\necho "$GOGC" > "$6"\n'
    )
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:/usr/bin:/bin")
    monkeypatch.delenv("GOGC", raising=False)
    if given:
        monkeypatch.setenv("GOGC", given)
    target = tmp_path / "cache" / "tiny-v1" / "tiny"
    gobuild.build(job(module(tmp_path / "src", ""), target), lambda _: None)
    assert target.read_text() == f"{used}\n"


@needs_go
def test_a_failed_build_shows_the_end_of_its_log_and_leaves_nothing(tmp_path: Path) -> None:
    target = tmp_path / "cache" / "tiny-v1" / "tiny"
    with pytest.raises(LocalError, match=r"(?s)building tiny v1 failed.*main\.go:5.*go build example"):
        gobuild.build(job(module(tmp_path / "src", "unknown()"), target), lambda _: None)
    assert list(target.parent.iterdir()) == []


@needs_go
def test_parts_in_c_are_compiled_where_there_are_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("gcc") is None:
        absent("no gcc")
    source = module(tmp_path / "src", "println(C.answer())")
    text = (source / "main.go").read_text()
    in_c = text.replace("var name", '// static int answer(void) { return 42; }\nimport "C"\n\nvar name')
    (source / "main.go").write_text(in_c)
    target = tmp_path / "bin" / "tiny-v1" / "tiny"
    with pytest.raises(LocalError, match="build constraints exclude all Go files"):
        gobuild.build(job(source, target), lambda _: None)
    with_c = dataclasses.replace(job(source, target), cgo=True)
    with monkeypatch.context() as patched:
        patched.setenv("CC", "no-such-compiler")
        with pytest.raises(LocalError, match=r"tiny v1 has parts in C, and no-such-compiler.*Debian: apt"):
            gobuild.build(with_c, lambda _: None)
    gobuild.build(with_c, lambda _: None)
    assert subprocess.run([target], capture_output=True, text=True, check=True).stderr == "42\n"


@needs_go
def test_two_at_once_build_once(tmp_path: Path) -> None:
    target = tmp_path / "cache" / "tiny-v1" / "tiny"
    source = module(tmp_path / "src", "println(name)")
    said: list[str] = []
    said_second: list[str] = []
    second = threading.Thread(target=gobuild.build, args=(job(source, target), said_second.append))

    def notify(line: str) -> None:
        said.append(line)
        if second.ident is None:  # the first one has begun, and goes on when the other has seen that
            second.start()
            while not said_second:
                time.sleep(0.02)

    gobuild.build(job(source, target), notify)
    second.join()
    assert target.exists()
    assert said
    assert said_second == ["waiting for another process that builds tiny v1"]


def test_without_go_the_message_says_which_and_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(LocalError, match=r"Go 1\.26\.6; install it from https.*Debian.*GPUPOOL_BIN_DIR"):
        gobuild.require_go(module(tmp_path / "src", "", go="1.26.6") / "go.mod")


def test_an_old_go_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "bin" / "go"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\necho go version go1.19.8 linux/amd64\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:/usr/bin:/bin")
    with pytest.raises(LocalError, match=r"is Go 1\.19\.8; Go 1\.26\.6 is needed"):
        gobuild.require_go(module(tmp_path / "src", "", go="1.26.6") / "go.mod")


@needs_go
def test_a_go_that_may_not_fetch_its_successor_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOTOOLCHAIN", "local")
    with pytest.raises(LocalError, match=r"is Go 1\.\d+.*; Go 1\.99\.0 is needed"):
        gobuild.require_go(module(tmp_path / "src", "", go="1.99.0") / "go.mod")
