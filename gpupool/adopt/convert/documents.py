"""Files of other tools as documents that keep the place of every value.

Splits a file at its document markers, reads each document as gpupool reads its own files (`gpupool.
yaml_source`: no duplicate keys, no alias bombs, no deep nesting), and takes Lists apart. What a document
means is for the readers of its kind; this module knows `kind: List` and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gpupool.adopt.convert.values import as_text
from gpupool.environment.spec.yaml_source import (
    MAX_BYTES,
    Loc,
    YamlSource,
    display_path,
    parse_source,
    value_at,
)
from gpupool.findings import Finding, SpecError, file_finding
from vapcheck.reading import TooLargeError, read_file

MAX_DOCUMENTS = 5000
"""Documents in one file; a dump of a cluster's pools has some hundred."""
_SPLIT = "split it; remove status.images of nodes, or read nodes with `gpupool import`"
_MARKER = re.compile(rb"^(?:---|\.\.\.)(?=[ \t\r\n]|\Z)", re.MULTILINE)
"""A marker stands at the start of a line and nowhere else, literal blocks included (YAML 1.2.2, 9.1)."""
_BLOCK = re.compile(r"[:-][ \t]+[|>][-+0-9]*[ \t]*(#.*)?$")
"""A line below which a text stands as it is (YAML 1.2.2, 8.1)."""


@dataclass(frozen=True, slots=True)
class Document:
    """One object of one file."""

    file: str
    data: Any
    source: YamlSource | None = field(repr=False)
    """Where its values stand; None for an object of a cluster."""
    first_line: int = 1
    """Line of the file on which the document's own first line is."""
    base: Loc = ()
    """Where in the file's document the object is, e.g. `("items", 3)` of a List."""
    within: Document | None = None
    """The object that this one is text in, such as the ConfigMap of a device-plugin configuration."""
    key: str = ""
    """Under which key it is there."""
    fixed: tuple[int, int] | None = None
    """Line and column of all of its values, where it is text that was written with escapes."""
    chart: str = ""
    """The Helm chart whose values it is, where what holds it says so."""
    chart_version: str = ""

    @property
    def kind(self) -> str:
        """`kind`, empty where there is none."""
        return self._word("kind")

    @property
    def api_version(self) -> str:
        return self._word("apiVersion")

    @property
    def name(self) -> str:
        """`metadata.name`, empty where there is none."""
        return self._word("metadata", "name")

    @property
    def namespace(self) -> str:
        return self._word("metadata", "namespace")

    def _word(self, *path: str) -> str:
        return as_text(value_at(self.data, path)) or ""

    @property
    def title(self) -> str:
        """What to call the object: its kind and name, or where it is text."""
        if self.within is not None:
            return f"{self.within.title}, {self.key}"
        if self.kind:
            where = f"{self.namespace}/" if self.namespace else ""
            return f"{self.kind} {where}{self.name or '(no name)'}"
        return "the file"

    def place(self, loc: Loc) -> tuple[int, int]:
        """Line and column of `loc` in the file; of the innermost part that exists. (0, 0) in a cluster."""
        if self.source is None:
            return (0, 0)
        if self.fixed is not None:
            return self.fixed
        line, column = self.source.place((*self.base, *loc))
        return line + self.first_line - 1, column


def read_documents(path: Path, *, streams: bool = False) -> tuple[list[Document], list[Finding]]:
    """The objects of the file at `path`, which may be a pipe with `streams`, and what of it could not be
    read. Raises nothing."""
    name = display_path(path)
    try:
        raw = read_file(path, MAX_BYTES, streams=streams)
    except TooLargeError:
        return [], [file_finding(name, 1, 1, "", "the file is larger than 1 MiB", _SPLIT)]
    except OSError as error:
        reason = error.strerror or str(error)
        return [], [file_finding(name, 1, 1, "", f"can't be read: {reason}", "name a readable file")]
    return parse_documents(name, raw)


def parse_documents(name: str, raw: bytes) -> tuple[list[Document], list[Finding]]:
    """The objects in `raw`, the content of the file shown as `name`, and what of it could not be read. One
    broken document does not spoil the others."""
    if len(raw) > MAX_BYTES:
        return [], [file_finding(name, 1, 1, "", "the file is larger than 1 MiB", _SPLIT)]
    documents, findings = list[Document](), list[Finding]()
    for number, (first_line, chunk) in enumerate(_chunks(raw.removeprefix(b"\xef\xbb\xbf"))):
        if number >= MAX_DOCUMENTS:
            message = f"more than {MAX_DOCUMENTS} documents"
            findings.append(file_finding(name, first_line, 1, "", message, "split the file"))
            break
        try:
            source = parse_source(name, chunk).sound()
        except SpecError as error:
            findings += [replace(finding, line=finding.line + first_line - 1) for finding in error.findings]
            continue
        if source.data is not None:
            documents += _objects(Document(name, source.data, source, first_line))
    return documents, findings


def inner_document(document: Document, loc: Loc) -> Document | None:
    """The only document in the text at `loc`; None where that is no text, can't be read, or has several."""
    text = value_at(document.data, loc)
    if not isinstance(text, str):
        return None
    documents, findings = parse_documents(document.file, text.encode(errors="replace"))
    if len(documents) != 1 or findings:
        return None
    inner, (line, column) = documents[0], document.place(loc)
    if document.source is None:
        return replace(inner, source=None, within=document, key=str(loc[-1]))
    own = document.source.line(line - document.first_line + 1) if document.fixed is None else ""
    block = _BLOCK.search(own)
    place = {"first_line": line + 1} if block else {"fixed": (line, column)}
    return replace(inner, within=document, key=str(loc[-1]), **place)


def of_cluster(objects: Sequence[Mapping[str, Any]], file: str) -> list[Document]:
    """Objects as an API server gives them, as documents of `file`, the cluster's name."""
    return [Document(file, dict(body), None) for body in objects]


def _chunks(raw: bytes) -> Iterator[tuple[int, bytes]]:
    """First line and text of each document; a marker stays with what follows it on its line."""
    start, line = 0, 1
    for marker in _MARKER.finditer(raw):
        if marker.start() > start:
            yield line, _opened(raw[start : marker.start()])
            line += raw.count(b"\n", start, marker.start())
        start = marker.start()
    yield line, _opened(raw[start:])


def _opened(chunk: bytes) -> bytes:
    """The text of one document: a marker that ends the one before is not a part of it."""
    return b"   " + chunk[3:] if chunk.startswith(b"...") else chunk


def _objects(document: Document) -> Iterator[Document]:
    """The objects of a List, else the document itself. An empty List is not an object."""
    data = document.data
    if isinstance(data, dict) and str(data.get("kind", "")).endswith("List") and "items" in data:
        items = data["items"]
        for index, item in enumerate(items if isinstance(items, list) else []):
            if isinstance(item, dict):
                yield from _objects(replace(document, data=item, base=(*document.base, "items", index)))
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            yield document
    else:
        yield document
