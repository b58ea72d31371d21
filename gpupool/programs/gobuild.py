"""Build pinned Go programs of one module into files: locked, atomic, resumable, with progress.

Programs that share packages are built by one `go build`. An interrupted build leaves nothing at its
targets and costs little the next time, because Go keeps what it compiled. Nothing here may know which
programs there are.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from gpupool.programs.failures import LocalError

_BEAT_SECONDS = 5.0
_TAIL_LINES = 25
_GOGC = "400"
"""Compiler and linker collect their garbage four times more seldom than by default: memory for time.

A GOGC of the user's own is left as it is. It changes how long a build takes, never what comes out.
"""
Report = Callable[[str], None]


@dataclass(frozen=True)
class Build:
    """What to build and where to."""

    title: str
    """As people call it, for example `etcd v3.6.5`."""
    source: Path
    """The folder with go.mod and go.sum."""
    ldflags: str
    targets: dict[str, Path]
    """Package -> file. Of several packages each must end in the name of its program."""
    usual_seconds: int
    cgo: bool = False
    """Whether it has parts in C: a C compiler is needed, and what comes out needs this machine's libc."""


def build(job: Build, report: Report) -> None:
    """Build those of `job.targets` that are not there by the time the locks are ours.

    Raises LocalError when Go is missing or too old, or when the build fails (with the end of its log).
    """
    with ExitStack() as locks:
        for folder in sorted(target.parent for target in job.targets.values()):  # one order: no deadlock
            folder.mkdir(parents=True, exist_ok=True)
            locks.enter_context(locked(folder.with_name(f".{folder.name}.lock"), job.title, report))
        missing = {package: target for package, target in job.targets.items() if not target.exists()}
        if not missing:
            return
        go = require_go(job.source / "go.mod")
        if job.cgo:
            _require_c_compiler(job.title)
        with tempfile.TemporaryDirectory(dir=next(iter(missing.values())).parent, prefix=".build.") as fresh:
            output = Path(fresh) / "programs"
            output.mkdir()
            results = {package: output / package.rpartition("/")[2] for package in missing}
            to = str(results[next(iter(missing))]) if len(missing) == 1 else f"{output}{os.sep}"
            command = [go, "build", "-mod=readonly", "-ldflags", job.ldflags, "-o", to, *missing]
            _run(command, job, Path(fresh) / "log", report)
            for package, target in missing.items():
                results[package].replace(target)


def _run(command: list[str], job: Build, log: Path, report: Report) -> None:
    """Run the compiler, reporting its progress every few seconds."""
    started = time.monotonic()
    environment = {"GOGC": _GOGC, **os.environ, "CGO_ENABLED": str(int(job.cgo))}
    environment |= {"GOFLAGS": "", "GOWORK": "off"}
    with log.open("wb") as stream:
        process = subprocess.Popen(
            command, cwd=job.source, env=environment, stdout=stream, stderr=subprocess.STDOUT
        )
        try:
            while True:
                elapsed = time.monotonic() - started
                report(f"building {job.title}: {elapsed:.0f} s (usually about {_span(job.usual_seconds)})")
                try:
                    code = process.wait(timeout=_BEAT_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    continue
        except BaseException:
            process.kill()
            process.wait()
            raise
    if code != 0:
        tail = "\n  ".join(log.read_text(errors="replace").splitlines()[-_TAIL_LINES:])
        raise LocalError(
            f"building {job.title} failed (go build exited {code}); the end of its log:\n  {tail}\n"
            f"to see it all: cd {job.source} && go build {' '.join(job.targets)}"
        )


def _span(seconds: int) -> str:
    return f"{seconds} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def require_go(go_mod: Path) -> str:
    """The path of a `go` that is new enough for `go_mod`.

    Go 1.21 and later fetch a newer toolchain by themselves unless GOTOOLCHAIN=local forbids it; that
    is taken into account. Raises LocalError with the version needed and how to get it.
    """
    match = re.search(r"^go (\S+)", go_mod.read_text(), re.MULTILINE)
    needed = match[1] if match else "1.26"
    advice = (
        "install it from https://go.dev/dl/ (Debian: the packaged golang-go is usually too old; "
        "Homebrew: `brew install go`), or put prebuilt programs into the folder GPUPOOL_BIN_DIR"
    )
    go = shutil.which("go")
    if go is None:
        raise LocalError(
            f"`go` is not on PATH and {go_mod.parent.name} must be built with Go {needed}; {advice}"
        )
    settings = {**os.environ, "GOWORK": "off"}
    done = subprocess.run(
        [go, "version"], cwd=go_mod.parent, env=settings, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        problem = (done.stderr.strip().splitlines() or ["no answer"])[-1]
        raise LocalError(f"{go}: Go {needed} is needed but not available ({problem}); {advice}")
    have = re.search(r"go(\d+(?:\.\d+)*)", done.stdout)
    if have is None or _parts(have[1]) < _parts(needed):
        raise LocalError(f"{go} is Go {have[1] if have else '?'}; Go {needed} is needed; {advice}")
    return go


def _require_c_compiler(title: str) -> None:
    """Raises LocalError where the compiler that Go would call is missing."""
    compiler = os.environ.get("CC") or "gcc"
    if shutil.which(compiler.split()[0]) is None:
        raise LocalError(
            f"{title} has parts in C, and {compiler} is not on PATH; Debian: apt-get install gcc libc6-dev"
        )


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


@contextmanager
def locked(path: Path, title: str, report: Report) -> Iterator[IO[bytes]]:
    """Hold an exclusive lock on `path`, saying so while another process has it."""
    with path.open("wb") as stream:
        waited = False
        while True:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not waited:
                    report(f"waiting for another process that builds {title}")
                waited = True
                time.sleep(0.2)
        yield stream
