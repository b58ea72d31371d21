"""`make release`: everything that a release consists of, from one commit, twice, and the same both times.

    python .ci/release.py version X.Y.Z    write the version where it stands, and the changelog's section
    python .ci/release.py build            dist/: wheels, sources, chart, bill of materials, image, checksums

What is built is what the commit has: uncommitted changes are refused. Times, owners and modes within archives
are the commit's, so that another build of it with the same tools has the same checksums. Publishing is
left to people with credentials (docs/release.md).
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
PLACES = (
    "README.md",
    *("pyproject.toml", "gpupool/__init__.py", "gpupool/client/pyproject.toml", "Dockerfile"),
    *("gpupool/queue/pyproject.toml", "vapcheck/pyproject.toml"),
    *("charts/gpu-scheduler/Chart.yaml",),
    *(
        "docs/assert.md",
        "docs/ci.md",
        "docs/eks.md",
        "docs/operate-queue.md",
        "docs/reference.md",
        "docs/start.md",
    ),
    *(
        "docs/queue-openapi.json",
        "environments/dev.yaml",
        "environments/staging.yaml",
        "environments/prod.yaml",
    ),
)
"""Files that name the version. A test finds others."""
PROJECTS = (".", "vapcheck", "gpupool/client")
"""Folders that are distributions of their own."""
IN_PLACE = "gpupool/queue"
"""A distribution whose packages lie beside its folder: a wheel, and no source distribution."""
CHANGELOG = ROOT / "CHANGELOG.md"
REFERENCE = ROOT / "docs" / "reference.md"
"""Says of each field since when it exists."""
UNRELEASED = "## Unreleased\n"
VERSION = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+")
IMAGE = "gpupool-{}-image.tar"
CYCLONEDX = ROOT / "build" / "audit" / "bin" / "cyclonedx-py"
LOCKS = {"requirements.lock": "gpupool", "requirements-image.lock": "gpupool-image"}
BUILDERS = ("buildah", "docker")
SUMS = "SHA256SUMS"


class ReleaseError(Exception):
    """Why there is no release; its text is fit to be shown."""


def run(*command: str | Path, cwd: Path = ROOT, env: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise ReleaseError(f"{' '.join(map(str, command))}: {(done.stderr or done.stdout).strip()}")
    return done.stdout.strip()


def present() -> str:
    """The version of the checkout."""
    [version] = re.findall(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    return str(version)


def exactly(version: str) -> re.Pattern[str]:
    """That version, and not a part of a longer number."""
    return re.compile(rf"(?<![\d.]){re.escape(version)}(?![\d]|\.\d)")


def write_version(new: str, today: str) -> list[str]:
    """Have every place say `new`, and head what is unreleased with it; the files that were written.

    Nothing is written where something is in the way.
    """
    old = present()
    if not VERSION.fullmatch(new):
        raise ReleaseError(f"{new!r} is no version; write MAJOR.MINOR.PATCH")
    if tuple(map(int, new.split("."))) <= tuple(map(int, old.split("."))):
        raise ReleaseError(f"{new} does not come after {old}, which the checkout has; choose a higher one")
    changelog = CHANGELOG.read_text()
    head, unreleased, rest = changelog.partition(UNRELEASED)
    section = rest.partition("\n## ")[0]
    if not unreleased or not section.strip():
        raise ReleaseError("CHANGELOG.md has nothing under Unreleased; write there what users notice")
    texts = {ROOT / place: (ROOT / place).read_text() for place in PLACES}
    silent = [str(path.relative_to(ROOT)) for path, text in texts.items() if not exactly(old).search(text)]
    if silent:
        raise ReleaseError(f"{', '.join(silent)}: does not say {old}; correct PLACES in .ci/release.py")
    for path, text in texts.items():
        path.write_text(exactly(old).sub(new, text))
    CHANGELOG.write_text(f"{head}{UNRELEASED}\n## {new} ({today})\n{rest}")
    minor = new.rpartition(".")[0]
    REFERENCE.write_text(REFERENCE.read_text().replace("| unreleased |", f"| {minor} |"))
    return [*PLACES, CHANGELOG.name]


def normalised(archive: bytes, epoch: int) -> bytes:
    """A .tar.gz with the same files in the order of their names, without owners, from one moment."""
    packed = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(archive)) as source,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as target,
    ):
        for member in sorted(source.getmembers(), key=lambda member: member.name):
            content = source.extractfile(member) if member.isfile() else None
            member.mtime, member.uid, member.gid, member.uname, member.gname = epoch, 0, 0, "", ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            member.pax_headers = {}
            target.addfile(member, content)
    return gzip.compress(packed.getvalue(), mtime=epoch)


def build(commit: str, version: str, target: Path) -> list[str]:
    """Build the commit into `target`; what could not be built here, and why."""
    epoch = int(run("git", "show", "-s", "--format=%ct", commit))
    stable = {"SOURCE_DATE_EPOCH": str(epoch), "PYTHONDONTWRITEBYTECODE": "1"}
    os.umask(0o022)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "source")
        source.mkdir()
        sources = Path(folder, "source.tar")
        run("git", "archive", "--output", sources, commit)
        shutil.unpack_archive(sources, source)
        for number, name in enumerate(PROJECTS):
            # Without links, which an archive can't follow.
            project = Path(folder, f"project-{number}")
            shutil.copytree(source / name, project)
            packed = built(project, "build_sdist", target, stable)
            packed.write_bytes(normalised(packed.read_bytes(), epoch))
            # From the archive, as a package index would: what the archive lacks is missed here.
            unpacked = Path(folder, f"unpacked-{packed.name}")
            shutil.unpack_archive(packed, unpacked)
            [tree] = unpacked.iterdir()
            built(tree, "build_wheel", target, stable)
        built(source / IN_PLACE, "build_wheel", target, stable)
        chart(source, version, target, epoch)
        bills_of_materials(source, version, target)
        return image(source, version, target, epoch)


def built(project: Path, hook: str, target: Path, env: Mapping[str, str]) -> Path:
    """What the project's build backend makes (PEP 517)."""
    code = f"import sys; from setuptools import build_meta; print('\\n' + build_meta.{hook}(sys.argv[1]))"
    return target / run(sys.executable, "-c", code, target, cwd=project, env=env).splitlines()[-1]


def chart(source: Path, version: str, target: Path, epoch: int) -> None:
    """The queue's chart, by Helm."""
    locate = "from gpupool.programs import binaries; print(binaries.locate_all(['helm'], print)['helm'])"
    helm = run(sys.executable, "-c", locate).splitlines()[-1]
    run(helm, "package", source / "charts" / "gpu-scheduler", "--destination", target)
    packed = target / f"gpu-scheduler-{version}.tgz"
    packed.write_bytes(normalised(packed.read_bytes(), epoch))


def bills_of_materials(source: Path, version: str, target: Path) -> None:
    """CycloneDX, of what each lock pins: that is what an installation with hashes consists of."""
    for lock, name in LOCKS.items():
        path = target / f"{name}-{version}.cdx.json"
        command = (
            CYCLONEDX,
            "requirements",
            "--output-reproducible",
            "--pyproject",
            source / "pyproject.toml",
        )
        run(*command, "--output-format", "JSON", "--output-file", path, source / lock)


def image(source: Path, version: str, target: Path, epoch: int) -> list[str]:
    """The image as an archive (OCI), where a program for that is there; else why there is none."""
    builder = next(filter(shutil.which, BUILDERS), None)
    if builder is None:
        return [f"no image: neither {' nor '.join(BUILDERS)} is here; build it from this commit where one is"]
    path, tag = target / IMAGE.format(version), f"gpupool:{version}"
    if builder == "buildah":
        run("buildah", "build", "--timestamp", str(epoch), "--tag", tag, source)
        run("buildah", "push", tag, f"oci-archive:{path}:{tag}")
        return []
    output = f"type=oci,dest={path},rewrite-timestamp=true"
    try:
        run(
            "docker",
            "buildx",
            "build",
            "--output",
            output,
            "--tag",
            tag,
            source,
            env={"SOURCE_DATE_EPOCH": str(epoch)},
        )
    except ReleaseError as error:
        return [f"no image: {str(error).splitlines()[0]}"]
    return []


def sums(folder: Path) -> str:
    """As sha256sum writes and checks them."""
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in sorted(folder.iterdir())
        if path.name != SUMS
    ]
    return "".join(lines)


def release() -> None:
    """Build HEAD twice, compare, and leave dist/. Raises ReleaseError."""
    changed = run("git", "status", "--porcelain")
    if changed:
        raise ReleaseError(
            f"not committed: {', '.join(line[3:] for line in changed.splitlines()[:5])}; commit first"
        )
    version, commit = present(), run("git", "rev-parse", "HEAD")
    if f"\n## {version} (" not in CHANGELOG.read_text():
        raise ReleaseError(f"CHANGELOG.md has no section {version}; first: make release VERSION={version}")
    with tempfile.TemporaryDirectory() as folder:
        first, second = Path(folder, "first"), Path(folder, "second")
        for target in (first, second):
            target.mkdir()
            print(f"building {version} at {commit[:12]} ...", flush=True)
            missing = build(commit, version, target)
        differing = sorted(set(sums(first).splitlines()) ^ set(sums(second).splitlines()))
        if differing:
            names = ", ".join(sorted({line.split()[1] for line in differing}))
            raise ReleaseError(
                f"{names}: not the same when built twice; find out what differs before publishing"
            )
        shutil.rmtree(DIST, ignore_errors=True)
        shutil.copytree(first, DIST)
    (DIST / SUMS).write_text(sums(DIST))
    print(
        (DIST / SUMS).read_text()
        + "\n".join(["the same when built twice", *missing, "go on with docs/release.md"])
    )


def main() -> None:
    try:
        match sys.argv[1:]:
            case ["version", new]:
                written = write_version(new, datetime.now(UTC).date().isoformat())
                print(f"{new} in {', '.join(written)}; read the difference, commit it, then: make release")
            case ["build"]:
                release()
            case _:
                raise ReleaseError("use: python .ci/release.py version MAJOR.MINOR.PATCH | build")
    except ReleaseError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
