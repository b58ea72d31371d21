"""Files that somebody else wrote, read within bounds: the one way to read a checkout.

A branch can carry a link to a device, to a file outside of the repository or to nowhere, and a file of any
size. So a file is opened without waiting, must be a regular one, and is read up to a limit that the caller
gives. A link is followed within its repository: where a folder above it has a `.git`, what it leads to must
be below that folder. Outside of a repository, as in a Pod's volumes, links are free.

Every refusal is an OSError whose `strerror` says why, for the handler that each caller has anyway.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

MAX_FILES = 20_000
"""Entries of one folder with all below it."""
MAX_DEPTH = 32
"""Folders below each other."""
_CHUNK = 1 << 20
_WHAT = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


class RefusedFileError(OSError):
    """A file that is not read, for what it is. `strerror` says why."""


class TooLargeError(RefusedFileError):
    """More bytes than the limit."""


def read_file(path: str | Path, limit: int, *, streams: bool = False) -> bytes:
    """The content of the file at `path`, at most `limit` bytes. Raises OSError.

    `streams`: the path is what a person typed, so that it may be a pipe or a terminal (`/dev/stdin`,
    `/dev/fd/63`). That is read to its end, within the same limit, and waited for.
    """
    with open_file(path, limit, streams=streams) as file:
        before = os.fstat(file.fileno())
        pieces, size = list[bytes](), 0
        while size <= limit and (piece := file.read(min(_CHUNK, limit + 1 - size))):
            pieces.append(piece)
            size += len(piece)
        after = os.fstat(file.fileno())
    if size > limit:
        raise _too_large(path, limit)
    if stat.S_ISREG(before.st_mode) and (before.st_mtime_ns, before.st_size) != (
        after.st_mtime_ns,
        after.st_size,
    ):
        raise RefusedFileError(errno.EBUSY, "it changed while it was read; try again", str(path))
    return b"".join(pieces)


def open_file(path: str | Path, limit: int, *, streams: bool = False) -> BinaryIO:
    """The file at `path`, open for reading, which has at most `limit` bytes at this time. Raises OSError."""
    place = followed(path)
    waits = streams and not os.path.isfile(place)
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | (0 if waits else os.O_NONBLOCK | os.O_NOFOLLOW)
    try:
        descriptor = os.open(place, flags)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket, or a device without a driver
            raise RefusedFileError(error.errno, "is not a regular file", str(path)) from error
        raise
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            what = next((text for is_one, text in _WHAT if is_one(status.st_mode)), "of an unknown kind")
            if stat.S_ISDIR(status.st_mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
            if not streams or stat.S_ISBLK(status.st_mode):
                raise RefusedFileError(errno.EINVAL, f"it is {what}, not a regular file", str(path))
        elif status.st_size > limit:
            raise _too_large(path, limit)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def files_below(folder: str | Path, suffixes: Sequence[str], *, depth: int = MAX_DEPTH) -> Iterator[Path]:
    """The files of `folder` with one of `suffixes` in their names, sorted by path: regular files and links to
    such; `depth` 0 for those right in it. Links to folders are not followed. Raises OSError, also for more
    than MAX_FILES entries."""
    matching, count = list[Path](), 0
    followed(folder)
    folders = [(Path(folder), 0)]
    while folders:
        place, level = folders.pop()
        with os.scandir(place) as entries:
            for entry in entries:
                count += 1
                if count > MAX_FILES:
                    raise RefusedFileError(errno.EFBIG, f"it has more than {MAX_FILES:,} files", str(folder))
                if entry.is_dir(follow_symlinks=False):
                    if level < depth:
                        folders.append((place / entry.name, level + 1))
                    elif depth == MAX_DEPTH:
                        raise RefusedFileError(
                            errno.ELOOP, f"it has folders more than {MAX_DEPTH} deep", str(place)
                        )
                elif entry.name.endswith(tuple(suffixes)):
                    matching.append(place / entry.name)
    yield from sorted(matching)


def _too_large(path: str | Path, limit: int) -> TooLargeError:
    shown = f"{limit >> 20:,} MiB" if limit >= 1 << 20 else f"{limit:,} bytes"
    return TooLargeError(errno.EFBIG, f"it is larger than {shown}", str(path))


def followed(path: str | Path) -> str:
    """Where `path` leads to. Raises OSError for a loop, and for a link out of its repository."""
    written, place = os.path.abspath(path), os.path.realpath(path)
    if place == written:
        return place
    try:
        os.stat(path)
    except FileNotFoundError as error:
        if os.path.islink(path):
            raise RefusedFileError(errno.ENOENT, "it is a link to nowhere", str(path)) from error
        raise
    for folder in Path(written).parents:
        if os.path.lexists(folder / ".git") and not Path(place).is_relative_to(os.path.realpath(folder)):
            raise RefusedFileError(errno.EXDEV, "it is a link out of the repository", str(path))
    # What a descriptor leads to has no path where it is a pipe (proc(5), /proc/pid/fd).
    return place if os.path.lexists(place) else written
