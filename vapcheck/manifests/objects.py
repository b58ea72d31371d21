"""Finds the objects of Kubernetes in one document: the document itself, or those of a List, however nested.

kubectl 1.36 means to take Lists apart the same way (`FlattenListVisitor`), but gives up on a List inside a
List; other tools don't, so what is inside is read here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from vapcheck.manifests.place import rows_of_items
from vapcheck.manifests.problem import Problem
from vapcheck.manifests.secret_kinds import is_secret, unshown
from vapcheck.manifests.stream import Piece

MAX_LISTS = 16
"""Levels of Lists in Lists; three do not occur in practice."""
_WRITE = "write apiVersion, kind, metadata"
_MOVE = "write apiVersion and kind, or move the file"
Path = tuple[str | int, ...]


def mapping_in(body: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """The mapping at these keys of an object, empty where there is none; other values are reported when the
    object is judged."""
    found: dict[str, Any] = body if isinstance(body, dict) else {}
    for key in keys:
        value = found.get(key)
        found = value if isinstance(value, dict) else {}
    return found


@dataclass(frozen=True, slots=True)
class Located:
    """An object with its first line in the file (0 where there was no text) and its path in the document."""

    body: dict[str, Any]
    line: int
    item: Path


@dataclass(frozen=True, slots=True)
class NoObject:
    """A document, or an item of a List, that is not a Kubernetes object, and why."""

    problem: Problem
    foreign: bool = False
    """Whether it is not meant to be one: a document with neither apiVersion nor kind."""


def objects_in(piece: Piece, *, hide: Callable[[], bool]) -> Iterator[Located | NoObject]:
    """The objects of `piece` in the order of the text. Where something is wrong, `hide` is asked whether its
    value must not be shown."""
    body = piece.value
    if isinstance(body, dict):
        yield from _Reader(piece, hide).objects(body, piece.line, ())
        return
    shown = unshown(body) if hide() else f"the value {str(body)[:40]!r}"
    what = "a list" if isinstance(body, list) else shown
    problem = _problem(piece.line, f"{what} instead of a Kubernetes object", _WRITE)
    yield NoObject(problem, isinstance(body, list) and not any(map(_is_intended, body)))


def _is_intended(value: Any) -> bool:
    """Whether the document is meant to be a Kubernetes object."""
    if not isinstance(value, dict):
        return False
    if value.get("kind"):
        return True
    version = value.get("apiVersion")
    if not isinstance(version, str):
        return bool(version)
    chart = version in ("v1", "v2") and "version" in value and "name" in value and "metadata" not in value
    return bool(version) and not chart and not version.startswith("kustomize.config.k8s.io/")


def _problem(line: int, message: str, remediation: str) -> Problem:
    return Problem("", max(line, 1), 1, message, remediation)


class _Reader:
    """Goes through one document."""

    def __init__(self, piece: Piece, hide: Callable[[], bool]) -> None:
        self._piece = piece
        self._hide = hide

    def objects(self, body: dict[str, Any], line: int, item: Path) -> Iterator[Located | NoObject]:
        """`body`, or what is in it. As kubectl has it, every object with `items` is a List, whatever its
        kind."""
        if body.get("items") is not None:
            yield from self._items(body, line, item)
            return
        problem = self._wrong_with(body, line)
        if problem is None:
            yield Located(body, line, item)
        else:
            yield NoObject(problem, not item and not _is_intended(body))

    def _items(self, body: dict[str, Any], line: int, item: Path) -> Iterator[Located | NoObject]:
        """The objects of a List. Items without apiVersion and kind get them from the kind of the List
        (ConfigMapList: ConfigMap)."""
        items, kind = body["items"], body.get("kind")
        if not kind or not isinstance(items, list):
            message, remediation = "no kind: not a Kubernetes object", _MOVE
            if kind:
                message, remediation = "items is not a list", "write a list of objects, or remove items"
            yield NoObject(_problem(line, message, remediation), not item and not _is_intended(body))
            return
        if len(item) >= 2 * MAX_LISTS:
            message = f"Lists in Lists, more than {MAX_LISTS} levels deep"
            yield NoObject(_problem(line, message, "write the objects as separate documents"))
            return
        known = self._piece.line > 0
        rows = rows_of_items(self._piece.text, item, len(items)) if known else []
        for index, inner in enumerate(items):
            first = self._piece.first_line + rows[index] - 1 if known else 0
            if not isinstance(inner, dict):
                yield NoObject(_problem(first, f"item {index} of the {kind} is not an object", _WRITE))
                continue
            if not inner.get("kind") and not inner.get("apiVersion"):
                own = {"kind": str(kind).removesuffix("List"), "apiVersion": body.get("apiVersion")}
                inner = {**inner, **own}
            yield from self.objects(inner, first, (*item, "items", index))

    def _wrong_with(self, body: dict[str, Any], line: int) -> Problem | None:
        for key in ("kind", "apiVersion"):
            value = body.get(key)
            if isinstance(value, str) and value:
                continue
            shown = unshown(value) if is_secret(body) or self._hide() else repr(value)
            said = f"{key} {shown} is not text" if value not in (None, "") else f"no {key}"
            name = body.get("kind") if key == "apiVersion" else None
            of = f" of this {name}" if name else ""
            return _problem(line, f"{said}{of}: not a Kubernetes object", _MOVE)
        if not isinstance(body.get("metadata", {}), dict | None):
            return _problem(line, "metadata is not an object", "write metadata: {name: ...}")
        return None
