"""Reads manifests as kubectl reads them: the objects in files, folders and texts, and where they stand.

Lists are taken apart; what can't be read, or isn't an object of Kubernetes, is a Problem with its place and
never hides the other documents. It does not interpret objects. No finding shows a
value from a text that may be a Secret.
"""

from __future__ import annotations

import bisect
import codecs
import functools
import itertools
import json
import marshal
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from vapcheck import forked
from vapcheck.manifests.objects import Located, objects_in
from vapcheck.manifests.place import place_in
from vapcheck.manifests.problem import Problem
from vapcheck.manifests.secret_kinds import may_hold_secret
from vapcheck.manifests.stream import KEEP_ONE, Piece, pieces
from vapcheck.reading import TooLargeError, read_file

SUFFIXES = (".yaml", ".yml", ".json")
"""Of the files that are read from a folder, as kubectl has it."""
MAX_BYTES = 256 << 20
WORTH_IT = 1 << 20
"""Bytes of a folder from which a second process that reads is well worth what it costs."""
_MEANWHILE = 1 << 20
"""Bytes that are read in the time in which this process does what its caller has to do meanwhile."""
MAX_REQUEST = 3 << 20
"""Bytes of one request (apiserver 0.36, DefaultMaxRequestBodyBytes)."""
_GROWTH = 6
"""Bytes that one character of YAML can become (`<`, which Go writes as \\u003c), aliases apart."""
_ESCAPED = re.compile("[<>&]")
_LINE_ENDS = re.compile("[\u2028\u2029]")
_FOREIGN = "ignore this if it is for another tool; otherwise write apiVersion and kind"
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


@dataclass(frozen=True, slots=True, eq=False)
class Document:
    """One object."""

    body: dict[str, Any]
    """JSON values exactly as kubectl would send them."""
    file: str
    """As the caller gave it."""
    line: int
    """The first line of the object in the file, from 1; 0 for an object that was never text."""
    text: str = field(default="", repr=False)
    """What the object was read from; of a List, the whole List."""
    first_line: int = field(default=0, repr=False)
    """The line of the file in which `text` begins."""
    item: tuple[str | int, ...] = field(default=(), repr=False)
    """Where in `text` the object is: `("items", 3)` for one of a List."""

    def position(self, path: str) -> tuple[int, int]:
        """Line and column (from 1) of `spec.containers[0].image` in the file, or of the innermost part of the
        path that is written there; (0, 0) for an object that was never text."""
        if not self.line:
            return 0, 0
        line, column = place_in(self.text, self.item, path)
        return self.first_line + line - 1, column


def is_not_kubernetes(finding: Problem) -> bool:
    """Whether the problem is only that a file found in a folder is for another tool (values.yaml,
    package.json): a document with neither apiVersion nor kind. It is never true for a file that was named,
    because such a file is expected to hold objects."""
    return finding.remediation == _FOREIGN


def is_taken(finding: Problem) -> bool:
    """Whether kubectl reads the text in spite of the finding, and sends the objects that were read: a key
    appears twice in it."""
    return finding.remediation == KEEP_ONE


def from_bodies(bodies: Iterable[dict[str, Any]], file: str) -> list[Document]:
    """Objects that were never text, such as rendered manifests. Lists are taken apart here too."""
    documents: list[Document] = []
    for body in bodies:
        piece = Piece(body, 0, "", 0)
        located = (one for one in objects_in(piece, hide=lambda: True) if isinstance(one, Located))
        documents.extend(Document(one.body, file, 0, "", 0, one.item) for one in located)
    return documents


def read_text(text: str, file: str) -> tuple[list[Document], list[Problem]]:
    """The objects in `text` in their order, and what is wrong with it."""
    return _read(text, file, in_folder=False)


def _read(text: str, file: str, *, in_folder: bool) -> tuple[list[Document], list[Problem]]:
    documents: list[Document] = []
    findings: list[Problem] = []
    for piece in pieces(text):
        findings += [replace(bad, file=file) for bad in piece.problems]
        if piece.value is NotImplemented:
            continue
        for one in objects_in(piece, hide=functools.partial(may_hold_secret, text)):
            if isinstance(one, Located):
                size = _oversize(one.body, piece.text)
                if size is not None:
                    findings.append(_too_large(file, one.line, size))
                    continue
                documents.append(Document(one.body, file, one.line, piece.text, piece.first_line, one.item))
                continue
            remediation = _FOREIGN if in_folder and one.foreign else one.problem.remediation
            findings.append(replace(one.problem, file=file, remediation=remediation))
    return documents, findings


def _oversize(body: dict[str, Any], text: str) -> int | None:
    """The bytes of an object that is too large, None for any other; `text` is what it was read from, alone or
    with others, so that small ones need not be measured."""
    if len(text) * _GROWTH <= MAX_REQUEST and "*" not in text:
        return None
    size = _sent(body)
    return size if size > MAX_REQUEST else None


def _sent(body: dict[str, Any]) -> int:
    """The length of the object as Go encodes it, with the line end that Go puts behind it."""
    written = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    size = len(written) if written.isascii() else len(written.encode("utf-8", "surrogatepass"))
    return size + 5 * len(_ESCAPED.findall(written)) + 3 * len(_LINE_ENDS.findall(written)) + 1


def _too_large(file: str, line: int, size: int) -> Problem:
    message = f"{size:,} bytes as JSON; the server accepts at most {MAX_REQUEST:,} per request"
    return Problem(file, line, 1, message, "split the object, or keep large contents out of it")


def read_files(
    paths: Sequence[Path], *, met: bool = False, meanwhile: Callable[[], object] = lambda: None
) -> tuple[list[Document], list[Problem]]:
    """The objects in `paths`; of folders, those of every manifest file below, sorted by path.

    `met`: whether the files were met in a folder, rather than named (`is_not_kubernetes`). What is named
    and is neither file nor folder (`/dev/fd/63`, a named pipe) is read to its end, once. `meanwhile` is
    called where another process reads: what this one has to do anyway, such as loading modules.
    """
    documents: list[Document] = []
    findings: list[Problem] = []
    streams: set[str] = set()
    for path in paths:
        name = str(path)
        in_folder = path.is_dir()
        names = _manifests_below(path, findings) if in_folder else [name]
        if not names:
            message = "a folder without manifests"
            remediation = f"name a folder with {', '.join(SUFFIXES)} files"
            findings.append(Problem(name, 1, 1, message, remediation))
        if not in_folder and path.exists() and not path.is_file():
            if name in streams:
                continue  # its text was read already, and waiting for more could take for ever
            streams.add(name)
        read = functools.partial(_read_each, met=met, in_folder=in_folder)
        own = _own_share(names) if in_folder else len(names)
        if own < len(names):
            theirs = forked.start(functools.partial(_packed, read, names[own:]))
            meanwhile()
            results = [read(names[:own]), _unpacked(*theirs())]
        else:
            results = [read(names)]
        for found, wrong in results:
            documents += found
            findings += wrong
    return documents, findings


def _read_each(names: Sequence[str], *, met: bool, in_folder: bool) -> tuple[list[Document], list[Problem]]:
    documents: list[Document] = []
    findings: list[Problem] = []
    for name in names:
        text = _text_of(name, findings, files_only=in_folder)
        if text is not None:
            read, wrong = _read(text, name, in_folder=in_folder or met)
            documents += read
            findings += wrong
    return documents, findings


def _own_share(names: Sequence[str]) -> int:
    """How many of the files this process reads; it leaves the others to a forked one where that is faster."""
    sizes = [os.path.getsize(name) if os.path.isfile(name) else 0 for name in names]
    if sum(sizes) < WORTH_IT or forked.processors() == 1:
        return len(names)
    share = (sum(sizes) - _MEANWHILE) // 2
    return bisect.bisect(list(itertools.accumulate(sizes)), share)


def _packed(
    read: Callable[[Sequence[str]], tuple[list[Document], list[Problem]]], names: Sequence[str]
) -> tuple[bytes, list[Problem]]:
    """What is read, to be sent: marshal copies plain values 8 times as fast as pickle."""
    documents, findings = read(names)
    rows = [
        (document.body, document.file, document.line, document.text, document.first_line, document.item)
        for document in documents
    ]
    return marshal.dumps(rows), findings


def _unpacked(packed: bytes, findings: list[Problem]) -> tuple[list[Document], list[Problem]]:
    return [Document(*row) for row in marshal.loads(packed)], findings  # noqa: S302 - from our own process


def _manifests_below(folder: Path, findings: list[Problem]) -> list[str]:
    """Like kubectl -R: links to files are read, links to folders are not followed. Unlike it, folders that
    are hidden (.git, .github) are left out."""

    def refuse(error: OSError) -> None:
        findings.append(_unreadable(str(error.filename), error))

    found: list[str] = []
    for where, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [os.path.join(where, name) for name in names if name.endswith(SUFFIXES)]
    return sorted(found, key=lambda name: name.split(os.sep))


def _unreadable(name: str, error: OSError) -> Problem:
    reason = error.strerror or str(error)
    return Problem(name, 1, 1, f"can't be read: {reason}", "name a readable file or folder")


def _text_of(name: str, findings: list[Problem], *, files_only: bool) -> str | None:
    """The text of a file: UTF-8, or UTF-16 where it says so. Bytes that are neither are a finding, and
    U+FFFD in the text, as kubectl has them."""
    try:
        raw = read_file(name, MAX_BYTES, streams=not files_only)
    except TooLargeError:
        remediation = "split it; the server accepts 3 MiB per object"
        findings.append(Problem(name, 1, 1, f"is larger than {MAX_BYTES >> 20} MiB", remediation))
        return None
    except OSError as error:
        findings.append(_unreadable(name, error))
        return None
    return _decoded(raw, name, findings)


def _decoded(raw: bytes, name: str, findings: list[Problem]) -> str:
    encoding = "utf-8"
    for mark, found in _BYTE_ORDER_MARKS:
        if raw.startswith(mark):
            raw, encoding = raw[len(mark) :], found
            break
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        column = error.start - raw.rfind(b"\n", 0, error.start)
        message = f"byte 0x{raw[error.start]:02x} is not {encoding.upper()}"
        findings.append(Problem(name, line, column, message, "save the file as UTF-8"))
        return raw.decode(encoding, "replace")
