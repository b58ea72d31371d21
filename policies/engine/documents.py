"""Reads manifests as kubectl reads them: the objects in files, folders and texts, and where they stand.

Lists are taken apart; what can't be read, or isn't an object of Kubernetes, is a Finding with its place and
never hides the other documents. What an object means is for others: this module knows apiVersion, kind and
items.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpupool.findings import Finding
from policies.engine.manifest_place import place_in, rows_of_items
from policies.engine.manifest_stream import Piece, pieces

SUFFIXES = (".yaml", ".yml", ".json")
"""Of the files that are read from a folder, as kubectl has it."""
MAX_BYTES = 256 << 20
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


def from_bodies(bodies: Iterable[dict[str, Any]], file: str) -> list[Document]:
    """Objects that were never text, such as rendered manifests. Lists are taken apart here too."""
    found: list[Document] = []
    for body in bodies:
        found.extend(_objects(Piece(body, 0, "", 0), file, []))
    return found


def read_text(text: str, file: str) -> tuple[list[Document], list[Finding]]:
    """The objects in `text` in their order, and what is wrong with it."""
    documents: list[Document] = []
    findings: list[Finding] = []
    for piece in pieces(text):
        findings += [Finding(file, bad.line, bad.column, "", bad.message, bad.hint) for bad in piece.problems]
        if piece.value is not NotImplemented:
            documents.extend(_objects(piece, file, findings))
    return documents, findings


def read_files(paths: Sequence[Path]) -> tuple[list[Document], list[Finding]]:
    """The objects in `paths`; of folders, those of every manifest file below, sorted by path."""
    documents: list[Document] = []
    findings: list[Finding] = []
    for path in paths:
        if path.is_dir():
            names = _manifests_below(path, findings)
            if not names:
                message, hint = (
                    "a folder without manifests",
                    f"name a folder with {', '.join(SUFFIXES)} files",
                )
                findings.append(Finding(str(path), 1, 1, "", message, hint))
        else:
            names = [str(path)]
        for name in names:
            text = _text_of(name, findings)
            if text is not None:
                read, wrong = read_text(text, name)
                documents += read
                findings += wrong
    return documents, findings


def _manifests_below(folder: Path, findings: list[Finding]) -> list[str]:
    """Like kubectl -R: links to files are read, links to folders are not followed."""

    def refuse(error: OSError) -> None:
        findings.append(_unreadable(str(error.filename), error))

    found = [
        os.path.join(where, name)
        for where, _, names in os.walk(folder, onerror=refuse)
        for name in names
        if name.endswith(SUFFIXES)
    ]
    return sorted(found, key=lambda name: name.split(os.sep))


def _unreadable(name: str, error: OSError) -> Finding:
    reason = error.strerror or str(error)
    return Finding(name, 1, 1, "", f"can't be read: {reason}", "name a readable file or folder")


def _text_of(name: str, findings: list[Finding]) -> str | None:
    """The text of a file: UTF-8, or UTF-16 where it says so. Bytes that are neither are a finding, and
    U+FFFD in the text, as kubectl has them."""
    try:
        if not os.path.isfile(name) and os.path.exists(name):
            findings.append(Finding(name, 1, 1, "", "is no regular file", "name a file or folder"))
            return None
        if os.path.getsize(name) > MAX_BYTES:
            hint = "split it; the server takes 3 MiB for one object"
            findings.append(Finding(name, 1, 1, "", f"is larger than {MAX_BYTES >> 20} MiB", hint))
            return None
        with open(name, "rb") as file:
            raw = file.read()
    except OSError as error:
        findings.append(_unreadable(name, error))
        return None
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
        findings.append(Finding(name, line, column, "", message, "save the file as UTF-8"))
        return raw.decode(encoding, "replace")


def _objects(piece: Piece, file: str, findings: list[Finding]) -> Iterator[Document]:
    """The object of a piece, or those of a List."""
    body = piece.value

    def wrong(line: int, message: str, hint: str) -> None:
        findings.append(Finding(file, max(line, 1), 1, "", message, hint))

    if not isinstance(body, dict):
        what = "a list" if isinstance(body, list) else f"the value {str(body)[:40]!r}"
        wrong(
            piece.line, f"{what} where an object of Kubernetes should be", "write apiVersion, kind, metadata"
        )
        return
    if body.get("items") is None:
        if _is_object(body, piece.line, wrong):
            yield Document(body, file, piece.line, piece.text, piece.first_line)
        return
    yield from _items(piece, file, wrong)


def _is_object(body: dict[str, Any], line: int, wrong: Any) -> bool:
    for key in ("kind", "apiVersion"):
        value = body.get(key)
        if not isinstance(value, str) or not value:
            shown = f"{key} {value!r} is no text" if value not in (None, "") else f"no {key}"
            name = body.get("kind") if key == "apiVersion" else None
            of = f" of this {name}" if name else ""
            wrong(
                line,
                f"{shown}{of}: not an object of Kubernetes",
                "write apiVersion and kind, or move the file",
            )
            return False
    if not isinstance(body.get("metadata", {}), dict | None):
        wrong(line, "metadata is no object", "write metadata: {name: ...}")
        return False
    return True


def _items(piece: Piece, file: str, wrong: Any) -> Iterator[Document]:
    """The objects of a List. As kubectl has it, every object with `items` is one, whatever its kind, and
    items without apiVersion and kind get them from the kind of the List (ConfigMapList: ConfigMap)."""
    body, items = piece.value, piece.value["items"]
    if not isinstance(items, list):
        wrong(piece.line, "items is no list", "write a list of objects, or leave items out")
        return
    if not body.get("kind"):
        wrong(
            piece.line, "no kind: not an object of Kubernetes", "write apiVersion and kind, or move the file"
        )
        return
    rows = rows_of_items(piece.text, len(items)) if piece.line else [1] * len(items)
    for index, item in enumerate(items):
        line = piece.first_line + rows[index] - 1 if piece.line else 0
        if not isinstance(item, dict):
            wrong(
                line, f"item {index} of the {body['kind']} is no object", "write apiVersion, kind, metadata"
            )
            continue
        if not item.get("kind") and not item.get("apiVersion"):
            item = {
                **item,
                "kind": str(body["kind"]).removesuffix("List"),
                "apiVersion": body.get("apiVersion"),
            }
        if _is_object(item, line, wrong):
            yield Document(item, file, line, piece.text, piece.first_line, ("items", index))
