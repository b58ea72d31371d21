"""Programs as their makers publish them: download one, hold it to its sha256, unpack it, put it in place.

Which ones there are is data (releases.yaml), their checksums too: no host is asked for the checksum of what
it serves. GPUPOOL_RELEASES names a mirror, or is `off`. This module must not leave anything at the target
whose checksum was not right, must not unpack a file under the name that an archive gives it, and must not
decide what happens instead: `NoDownload` says why there is no download, and `binaries` goes on with the
build.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import os
import platform
import queue
import re
import shutil
import sys
import tarfile
import tempfile
import threading
import time
import urllib.error
import urllib.request
import zlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from gpupool.programs import gobuild
from gpupool.programs.failures import LocalError
from gpupool.programs.gobuild import Report

ANSWER_SECONDS = 5.0
"""How long a host may take to be found, connected to and to answer, redirects included."""
STALL_SECONDS = 10.0
"""How long nothing may come in the middle of a file."""
_LARGEST = 512 << 20
_BEAT_SECONDS = 5.0

_given_up: dict[str, str] = {}
"""Hosts that could not be reached in this process, and why, so that each is waited for only once."""


class NoDownload(Exception):
    """There is no download, for the reason that `str()` gives; a build is what is left."""


@dataclass(frozen=True)
class PublishedFile:
    """One published file, for one version and platform."""

    title: str
    """As people call it, for example `etcd v3.6.5`."""
    url: str
    sha256: str
    member: str
    """The program's place in the archive; empty when the file is the program."""

    @property
    def key(self) -> str:
        """Tells apart what is downloaded from different places, or held to different checksums."""
        return hashlib.sha256("\n".join((self.url, self.member, self.sha256)).encode()).hexdigest()[:12]


@cache
def _entries() -> dict[str, Any]:
    entries: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "releases.yaml").read_text())[
        "releases"
    ]
    return entries


def wanted() -> bool:
    """Whether anything may be downloaded: not with GPUPOOL_RELEASES=off."""
    return os.environ.get("GPUPOOL_RELEASES", "public").strip() not in ("", "off")


def published(name: str, version: str, machine: str = "") -> PublishedFile | None:
    """The release of `name` for `machine` (default: this one); None when no sha256 of it is written down, or
    no download is wanted.

    Raises LocalError when GPUPOOL_RELEASES is neither `off` nor the address of a mirror.
    """
    if not wanted():
        return None
    mirror = os.environ.get("GPUPOOL_RELEASES")
    machine = machine or this_machine()
    entry = _entries().get(name, {"sha256": {}})
    sha256 = entry["sha256"].get(version, {}).get(machine)
    if sha256 is None:
        return None
    system, _, arch = machine.partition("-")
    fields = {"version": version, "os": system, "arch": arch}
    return PublishedFile(
        title=f"{name} {version}",
        url=_mirrored(entry["url"].format(**fields), mirror),
        sha256=sha256,
        member=entry.get("member", "").format(**fields),
    )


def this_machine() -> str:
    """This machine as Go names it, for example linux-amd64."""
    machine = platform.machine().lower()
    arch = {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)
    return f"{sys.platform}-{arch}"


def _mirrored(url: str, mirror: str | None) -> str:
    """`url`, or its place on a mirror, which has a folder per host (as `wget --force-directories` makes)."""
    if mirror is None:
        return url
    if not re.match(r"https?://[^/]", mirror.strip()):
        raise LocalError(
            f"GPUPOOL_RELEASES={mirror}: not the address of a mirror; use one that begins with https://, "
            "`off` to build everything, or unset it to use the public hosts"
        )
    return f"{mirror.strip().rstrip('/')}/{url.partition('://')[2]}"


def fetch(release: PublishedFile, target: Path, seconds: float, report: Report) -> None:
    """Put the program at `target`, unless it is there by the time the lock is ours.

    Raises NoDownload when it can't be had within `seconds`, or is not what its checksum says; then nothing
    is at the target.
    """
    folder = target.parent
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with gobuild.locked(folder.with_name(f".{folder.name}.lock"), release.title, report):
            if target.exists():
                return
            folder.mkdir(exist_ok=True)
            try:
                with tempfile.TemporaryDirectory(dir=folder, prefix=".fetch.") as fresh:
                    _into(Path(fresh), release, seconds, report).replace(target)
            finally:
                with contextlib.suppress(OSError):
                    folder.rmdir()  # stays when the program is in it
    except OSError as error:
        raise NoDownload(f"{folder}: can't be written ({_reason(error)})") from error


def _into(fresh: Path, release: PublishedFile, seconds: float, report: Report) -> Path:
    """Download into the folder `fresh`; the path of the program there, verified and executable."""
    host = urlsplit(release.url).netloc
    if host in _given_up:
        raise NoDownload(f"{host} {_given_up[host]}")
    report(f"downloading {release.title} from {host}")
    download, program = fresh / "download", fresh / "program"
    actual = _download(release, download, seconds, report)
    if actual != release.sha256:
        raise NoDownload(
            f"{release.url} is rejected: its sha256 is {actual}, but releases.yaml has {release.sha256}"
        )
    if release.member:
        _unpack(download, release, program)
    else:
        download.replace(program)
    program.chmod(0o755)
    return program


def _download(release: PublishedFile, file: Path, seconds: float, report: Report) -> str:
    """Write what `url` serves into `file` and return its sha256."""
    host = urlsplit(release.url).netloc
    digest, size = hashlib.sha256(), 0
    with _get(release.url) as answer, file.open("wb") as stream:
        total = answer.length or 0
        started = reported = time.monotonic()
        while True:
            try:
                chunk = answer.read1(1 << 18)
            except TimeoutError as error:
                raise _give_up(host, f"sent nothing for {STALL_SECONDS:.0f} s") from error
            except (OSError, http.client.HTTPException) as error:
                raise NoDownload(
                    f"{release.url} was interrupted after {size} bytes ({_reason(error)})"
                ) from error
            if not chunk:
                break
            stream.write(chunk)
            digest.update(chunk)
            size += len(chunk)
            now = time.monotonic()
            if size > _LARGEST:
                raise NoDownload(
                    f"{release.url} is larger than {_LARGEST >> 20} MiB, so it is not the program"
                )
            if now - started > seconds:
                raise _give_up(host, f"is slow ({size / 1e6:.1f} MB in {seconds:.0f} s)")
            if now - reported > _BEAT_SECONDS:
                reported = now
                report(f"downloading {release.title} from {host}: {size >> 20} of {total >> 20} MiB")
    if total and size != total:
        raise NoDownload(f"{release.url} was interrupted after {size} of {total} bytes")
    return digest.hexdigest()


def _unpack(archive: Path, release: PublishedFile, program: Path) -> None:
    """Copy the one member that is wanted into `program`; names in the archive are compared and never used."""
    try:
        with tarfile.open(archive, "r:gz") as opened:
            member = opened.getmember(release.member)
            content = opened.extractfile(member) if member.isreg() and member.size <= _LARGEST else None
            if content is None:
                raise NoDownload(f"{release.url}: {release.member} in it is not a regular file")
            with content, program.open("wb") as stream:
                shutil.copyfileobj(content, stream)
    except KeyError as error:
        raise NoDownload(f"{release.url} has no member {release.member}") from error
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        raise NoDownload(f"{release.url} can't be unpacked ({_reason(error)})") from error


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect that leaves HTTPS."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if req.full_url.startswith("https:") and not newurl.startswith("https:"):
            raise urllib.error.HTTPError(newurl, code, "a redirect away from HTTPS", headers, fp)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _get(url: str) -> Any:
    """The answer to a GET, by the proxies that the environment names, its body not yet read.

    In a thread of its own, because looking a name up has no time limit and there are ANSWER_SECONDS for all.
    Raises NoDownload; a host that can't be reached is remembered.
    """
    answers: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def ask() -> None:
        try:
            opener = urllib.request.build_opener(_SafeRedirects)
            request = urllib.request.Request(url, headers={"User-Agent": "gpupool"})  # noqa: S310 - http(s) alone
            answers.put(opener.open(request, timeout=STALL_SECONDS))
        except Exception as error:  # raised in the waiting thread
            answers.put(error)

    host = urlsplit(url).netloc
    threading.Thread(target=ask, daemon=True).start()
    try:
        answer = answers.get(timeout=ANSWER_SECONDS)
    except queue.Empty:
        raise _give_up(host, f"did not answer within {ANSWER_SECONDS:.0f} s") from None
    if isinstance(answer, urllib.error.HTTPError):
        raise NoDownload(f"{url}: HTTP {answer.code} {answer.reason}")
    if isinstance(answer, Exception):
        raise _give_up(host, f"can't be reached ({_reason(answer)})")
    return answer


def _give_up(host: str, reason: str) -> NoDownload:
    _given_up[host] = reason
    return NoDownload(f"{host} {reason}")


def _reason(error: object) -> str:
    cause = getattr(error, "reason", None) or error
    return str(getattr(cause, "strerror", None) or cause) or type(cause).__name__
