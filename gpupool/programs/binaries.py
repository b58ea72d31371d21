"""Where the programs come from: a given folder, the cache, PATH, a published release, or a build.

What there is to find is data (binaries.yaml); versions are the ones that tools/<tool>/go.mod requires,
so there is one place to raise them. This module decides; `releases` downloads, `gobuild` builds. It must
not take a download for a build: each lies in a folder of its own, and one that was built comes first.

A program in the folder named by GPUPOOL_BIN_DIR (as setup-envtest leaves it) or on PATH is taken when
its version fits by the rule of its entry; otherwise it is passed over in silence and the next source is
tried. Programs that can't print their version are trusted in GPUPOOL_BIN_DIR only.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from gpupool.environment import shipped
from gpupool.programs import gobuild, releases
from gpupool.programs.failures import LocalError

TOOLS = shipped.folder("tools")
Report = Callable[[str], None]

_PATIENCE = 120.0
"""How many seconds a download may take; one whose build usually takes longer may take as long as that."""
_VERSION = re.compile(r"v?(\d+)\.(\d+)\.(\d+)")


@dataclass(frozen=True)
class Program:
    """One entry of binaries.yaml with its pinned version filled in."""

    name: str
    tool: str
    module: str
    package: str
    version: str
    """As Go writes it, for example v1.36.3."""
    ldflags: str
    megabytes: int
    seconds: int
    """A usual build on two cores, for the progress line only."""
    version_args: tuple[str, ...]
    accepts: str
    seldom: bool = False
    """Whether it is not got with the others beforehand."""
    cgo: bool = False
    """Whether it has parts in C."""

    @property
    def source(self) -> Path:
        """The folder with this program's go.mod."""
        return TOOLS / self.tool

    @property
    def cached(self) -> Path:
        """Where a build of exactly these inputs lies; any change of module, sums or flags is another folder.

        A folder each, so that it can go on PATH and the program keeps its name.
        """
        digest = hashlib.sha256(self.ldflags.encode())
        for path in (self.source / "go.mod", self.source / "go.sum", *sorted(self.source.glob("*.go"))):
            digest.update(path.read_bytes())
        folder = f"{self.name}-{self.version}-{digest.hexdigest()[:12]}"
        return cache_folder() / "bin" / folder / self.name

    @property
    def release(self) -> releases.PublishedFile | None:
        """What may be downloaded in place of a build, if anything."""
        return releases.published(self.name, self.version)

    def downloaded(self, release: releases.PublishedFile) -> Path:
        """Where a download of exactly this release lies; another mirror or checksum is another folder."""
        return cache_folder() / "bin" / f"{self.name}-{self.version}-release-{release.key}" / self.name


def cache_folder() -> Path:
    """Where built programs and CRDs outlive control planes: GPUPOOL_CACHE, or ~/.cache/gpupool."""
    given = os.environ.get("GPUPOOL_CACHE")
    return Path(given) if given else Path.home() / ".cache" / "gpupool"


def pinned_version(tool: str, module: str) -> str:
    """The version of `module` that tools/<tool>/go.mod requires.

    Raises LocalError when the file is not there or does not name the module.
    """
    go_mod = TOOLS / tool / "go.mod"
    try:
        text = go_mod.read_text()
    except OSError as error:
        message = f"{go_mod}: {error.strerror}; it is part of gpupool: reinstall gpupool"
        raise LocalError(message) from error
    match = re.search(rf"^(?:require\s+|\s+){re.escape(module)}\s+(v\S+)", text, re.MULTILINE)
    if match is None:
        raise LocalError(f"{go_mod}: does not require {module}; run `go get -tool` there")
    return match[1]


@cache
def programs() -> dict[str, Program]:
    """Every program of binaries.yaml by name."""
    entries = yaml.safe_load((Path(__file__).parent / "binaries.yaml").read_text())["programs"]
    result = {}
    for name, entry in entries.items():
        version = pinned_version(entry["tool"], entry["module"])
        major, minor, _ = _numbers(version) or (0, 0, 0)
        flags = entry.get("ldflags", "").format(version=version, major=major, minor=minor)
        result[name] = Program(
            name=name,
            tool=entry["tool"],
            module=entry["module"],
            package=entry["package"],
            version=version,
            ldflags=f"-s -w {flags}".strip(),
            megabytes=entry["megabytes"],
            seconds=entry["seconds"],
            version_args=tuple(entry.get("versionArgs", ())),
            accepts=entry.get("accepts", ""),
            seldom=entry.get("seldom", False),
            cgo=entry.get("cgo", False),
        )
    return result


def find(name: str) -> Path | None:
    """The program `name` if it can be had without building it."""
    program = programs()[name]
    given = os.environ.get("GPUPOOL_BIN_DIR")
    if given:
        candidate = Path(given) / name
        if candidate.is_file() and (not program.version_args or fits(program, candidate)):
            return candidate.resolve()
    if program.cached.is_file():
        return program.cached
    release = program.release
    if release is not None and program.downloaded(release).is_file():
        return program.downloaded(release)
    on_path = shutil.which(name)
    if on_path and program.version_args and fits(program, Path(on_path)):
        return Path(on_path).resolve()
    return None


def locate(name: str, report: Report = lambda _: None) -> Path:
    """The path of program `name`, downloaded or built into the cache first if needed, with progress.

    Raises LocalError when it is not available, with the reason and what to do.
    """
    return locate_all([name], report)[name]


def locate_all(names: Iterable[str], report: Report = lambda _: None, build: bool = False) -> dict[str, Path]:
    """`locate` for several programs; with `build` only what was built here counts, and no host is asked."""
    wanted = [programs()[name] for name in names]
    found = {
        program.name: None if build else find(program.name) or _download(program, report)
        for program in wanted
    }
    missing = [one for one in wanted if found[one.name] is None and not one.cached.is_file()]
    if missing:
        minutes = sum(one.seconds for one in missing) / 60
        size = sum(one.megabytes for one in missing)
        report(
            f"{len(missing)} of {len(wanted)} programs must be built once:"
            f" {', '.join(one.name for one in missing)}"
            f" (about {minutes:.0f} min on two cores, {size} MB in {cache_folder()})"
        )
    for group in _together(missing):
        gobuild.build(group, report)
    return {one.name: found[one.name] or one.cached for one in wanted}


def _download(program: Program, report: Report) -> Path | None:
    """Where the program's release now lies; None, and a permanent line of output, when it is not
    available."""
    release = program.release
    if release is None:
        return None
    target = program.downloaded(release)
    try:
        releases.fetch(release, target, max(_PATIENCE, program.seconds), report)
    except releases.NoDownload as error:
        sys.stderr.write(f"{release.title} is built instead of downloaded: {error}\n")
        return None
    return target


def _together(missing: Iterable[Program]) -> list[gobuild.Build]:
    """One build for the programs of one module: what they share is compiled once, and linked side by side."""
    groups: dict[tuple[str, str, bool], list[Program]] = {}
    for one in missing:
        groups.setdefault((one.tool, one.ldflags, one.cgo), []).append(one)
    return [
        gobuild.Build(
            title=f"{', '.join(one.name for one in group)} {group[0].version}",
            source=group[0].source,
            ldflags=group[0].ldflags,
            targets={program.package: program.cached for program in group},
            usual_seconds=sum(one.seconds for one in group),
            cgo=group[0].cgo,
        )
        for group in groups.values()
    ]


def fits(program: Program, candidate: Path) -> bool:
    """Whether the version that `candidate` reports may stand in for the pinned one."""
    have, want = reported_version(program, candidate), _numbers(program.version)
    return have is not None and want is not None and accepts(program.accepts, have, want)


def reported_version(program: Program, candidate: Path) -> tuple[int, int, int] | None:
    """The version that `candidate` prints; None where it prints none."""
    try:
        done = subprocess.run(
            [str(candidate), *program.version_args], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return _numbers(done.stdout or done.stderr)


def accepts(rule: str, have: tuple[int, int, int], want: tuple[int, int, int]) -> bool:
    """Whether version `have` fits `want` under a rule of binaries.yaml; unknown rules accept nothing."""
    if have[0] != want[0]:
        return False
    if rule == "same-minor":
        return have[1] == want[1]
    if rule == "skew-1":
        return abs(have[1] - want[1]) <= 1
    return rule == "at-least" and have >= want


def _numbers(text: str) -> tuple[int, int, int] | None:
    match = _VERSION.search(text)
    return (int(match[1]), int(match[2]), int(match[3])) if match else None
