"""The account of a conversion: every single value of the input, and what happened to it.

Nothing can be dropped silently: `ConversionAccount` has the leaves of all documents from the start, readers
mark those that they use, and leaves without a mark are listed at the end. A reader that forgets a field
therefore makes the list longer, never the result wrong.

It does not interpret the values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from gpupool.adopt.convert.documents import Document
from gpupool.adopt.convert.leftovers import KINDS, Kind, Leftover, shown
from gpupool.adopt.convert.reasons import reasons
from gpupool.adopt.convert.values import as_text, as_whole, is_clear, leaves, same, walk
from gpupool.environment.spec.yaml_scalars import Unclear
from gpupool.environment.spec.yaml_source import Loc, path_text, value_at
from gpupool.findings import Category

T = TypeVar("T")
NO_PLACE = "gpupool has no field for it"
_UNCLEAR = "YAML parsers disagree on its meaning", "quote it, or write true or false"


@dataclass(frozen=True, slots=True)
class _Reason:
    """Why some leaves are not in the result as the input has them."""

    kind: Kind
    what: str
    remediation: str
    loc: Loc
    """The part that the reason was given for."""


_USED, _DERIVED, _CLUSTER = "used", "derived", "cluster"
_Mark = str | _Reason
"""What happened to a leaf: one of the words above, or the reason with which it is listed."""


@dataclass(slots=True)
class _Page:
    """The leaves of one document."""

    document: Document
    marks: dict[Loc, _Mark | None] = field(default_factory=dict)
    """None for a leaf without a mark, which no reader has seen so far."""
    empty: set[Loc] = field(default_factory=set)
    """Empty leaves, which do not prevent their parent from being listed as a whole."""


class ConversionAccount:
    """What happened to every leaf of some documents. A leaf is a scalar, or an empty mapping or list."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self._pages = [_Page(document) for document in documents]
        self._notes: list[Leftover] = []
        for page in self._pages:
            is_object = bool(page.document.kind)
            for leaf, value in walk(page.document.data, ()):
                # Kubernetes treats it as an absent field.
                empty = value is None or (is_object and value in ({}, []))
                page.marks[leaf] = _CLUSTER if empty else None
                if empty:
                    page.empty.add(leaf)

    @property
    def parts(self) -> list[Part]:
        """Each document as a part, in order."""
        return [Part(self, page, (), page.document.data) for page in self._pages]

    def note(self, entry: Leftover) -> None:
        """List something that has no leaf: what the input does not say."""
        if entry not in self._notes:
            self._notes.append(entry)

    def counts(self) -> dict[str, int]:
        """How many leaves were used, are derived anyway, are the cluster's own, or are listed."""
        counts = {_USED: 0, _DERIVED: 0, _CLUSTER: 0, "listed": 0}
        for page in self._pages:
            for mark in page.marks.values():
                counts[mark if isinstance(mark, str) else "listed"] += 1
        return counts

    def leftovers(self) -> list[Leftover]:
        """Everything that is listed: by document, in its order."""
        listed = [*self._notes, *(entry for part in self.parts for entry in part.listed())]
        files = list(dict.fromkeys(page.document.file for page in self._pages))
        order = {name: number for number, name in enumerate(files)}
        return sorted(listed, key=lambda e: (KINDS.index(e.category), order.get(e.file, -1), e.line))


@dataclass(frozen=True, slots=True)
class Part:
    """A value of a document, its place, and the methods that mark what happened to its leaves.

    A part that is not there is false and has no leaves, so that readers may mark it without a check. A later
    mark replaces an earlier one, except by the methods that mark only the rest.
    """

    account: ConversionAccount = field(repr=False)
    page: _Page = field(repr=False)
    loc: Loc
    value: Any = field(repr=False)
    """None where the part is not there."""
    there: bool = True

    def __bool__(self) -> bool:
        return self.there

    @property
    def document(self) -> Document:
        return self.page.document

    def at(self, *path: str | int) -> Part:
        """The part at `path` below this one; one that is not there where there is none, or a null."""
        value = value_at(self.value, path)
        return Part(self.account, self.page, (*self.loc, *path), value, value is not None)

    def items(self) -> Iterator[tuple[str, Part]]:
        """The fields of a mapping; of anything else none."""
        for key, value in self.value.items() if isinstance(self.value, dict) else ():
            yield key, Part(self.account, self.page, (*self.loc, key), value)

    def each(self) -> Iterator[Part]:
        """The items of a list; of anything else none."""
        for index, item in enumerate(self.value if isinstance(self.value, list) else ()):
            yield Part(self.account, self.page, (*self.loc, index), item)

    def word(self, *path: str | int) -> str:
        """The text at `path`, not marked; empty where there is no text."""
        return as_text(value_at(self.value, path)) or ""

    def _leaves(self) -> Iterator[Loc]:
        return leaves(self.value, self.loc) if self.there else iter(())

    def _mark(self, mark: _Mark) -> None:
        """Mark all leaves, those with a mark as well."""
        for leaf in self._leaves():
            self.page.marks[leaf] = mark

    def _mark_rest(self, mark: _Mark) -> None:
        """Mark the leaves that bear no mark yet."""
        for leaf in self._leaves():
            if self.page.marks[leaf] is None:
                self.page.marks[leaf] = mark

    def used(self) -> None:
        """Mark it as used: the result says it."""
        self._mark(_USED)

    def derived(self) -> None:
        """Mark it as derived: gpupool derives the same from the result."""
        self._mark(_DERIVED)

    def of_cluster(self) -> None:
        """Mark it as the cluster's: the cluster writes it by itself, so it is not a setting. Leaves that are
        listed stay listed."""
        for leaf in self._leaves():
            if not isinstance(self.page.marks[leaf], _Reason):
                self.page.marks[leaf] = _CLUSTER

    def rest_of_cluster(self) -> None:
        """Mark the leaves that bear no mark yet as the cluster's."""
        self._mark_rest(_CLUSTER)

    def rest_left(self, what: str) -> None:
        """List the leaves that bear no mark yet, by field, with one reason."""
        for section in dict(self.items()).values():
            section._mark_rest(_Reason("left", what, "", section.loc))

    def untouched(self) -> bool:
        """Whether no part of it is marked yet."""
        return all(self.page.marks[leaf] is None for leaf in self._leaves())

    def unmarked(self) -> Iterator[tuple[Loc, Part]]:
        """What below it bears no mark yet, with its path from here: scalars, lists as a whole, and the
        unmarked items of a list that is marked in part."""
        for key, inner in self.items():
            if isinstance(inner.value, dict) and inner.value:
                yield from (((key, *path), leaf) for path, leaf in inner.unmarked())
            elif inner.untouched():
                yield (key,), inner
            else:
                yield from ((item.loc[-2:], item) for item in inner.each() if item.untouched())

    def carry_over(self, but: Sequence[Loc] = ()) -> dict[str, Any]:
        """The values below it that bear no mark yet, which the file has as they are; they are marked as used.
        Those at and below the paths `but` stay unmarked."""
        carried: dict[str, Any] = {}
        for path, leaf in self.unmarked():
            if not is_clear(leaf.value):
                leaf.left(*_UNCLEAR)
            elif not any(path[: len(excluded)] == excluded for excluded in but):
                leaf.used()
                inner: dict[Any, Any] = carried
                item = isinstance(path[-1], int)
                for key in path[: -2 if item else -1]:
                    inner = inner.setdefault(key, {})
                if item:
                    inner.setdefault(path[-2], []).append(leaf.value)
                else:
                    inner[path[-1]] = leaf.value
        return carried

    def named(self, *fields: str) -> None:
        """Mark kind and name of an object as used, and more `fields` of its metadata."""
        self.uses("apiVersion", "kind")
        self.text("metadata", "name")
        self.at("metadata").uses(*fields)

    def uses(self, *names: str) -> None:
        """Mark the fields of these names as used; others stay unmarked."""
        for name in names:
            self.at(name).used()

    def derives(self, *names: str) -> None:
        """Mark the fields of these names as derived by gpupool; others stay unmarked."""
        for name in names:
            self.at(name).derived()

    def left(self, what: str, remediation: str = "", kind: Kind = "left") -> None:
        """List it: the result does not say it, and `what` says why."""
        self._mark(_Reason(kind, what, remediation, self.loc))

    def wrong(self, what: str, remediation: str) -> None:
        """List it as wrong: it can't have worked as it is written."""
        self.left(what, remediation, "wrong")

    def note(self, kind: Kind, what: str, remediation: str = "", *path: str | int) -> None:
        """List something about this part that is not a value of it, such as a field that is missing."""
        self.account.note(self.at(*path)._leftover(kind, what, remediation))

    def take(self, wanted: Callable[[Any], T | None], what: str, *path: str | int) -> T | None:
        """The value at `path` as `wanted` makes of it, marked as used. None where there is nothing; where
        `wanted` gives None the value is listed as being no `what`."""
        part = self.at(*path)
        if not part:
            return None
        value = wanted(part.value)
        if value is None:
            part.wrong(f"not {what}", f"write {what}")
        else:
            part.used()
        return value

    def text(self, *path: str | int) -> str | None:
        """The text at `path`, marked as used."""
        return self.take(as_text, "text", *path)

    def whole(self, *path: str | int) -> int | None:
        """The whole number at `path`, as a number or as text, marked as used."""
        return self.take(as_whole, "a whole number of 0 or more", *path)

    def truth(self, *path: str | int) -> bool | None:
        """The truth value at `path`, marked as used."""
        return self.take(lambda value: value if isinstance(value, bool) else None, "true or false", *path)

    def mark_derived_if(self, expected: Any, *path: str | int) -> bool:
        """Mark the value at `path` as derived if it is `expected`; return whether it is."""
        part = self.at(*path)
        if not part or not same(part.value, expected):
            return False
        part.derived()
        return True

    def derives_as(self, generated: Mapping[str, Any]) -> None:
        """Mark as derived what below it bears no mark yet and is as in `generated`."""
        for path, leaf in self.unmarked():
            if same(leaf.value, value_at(generated, path)):
                leaf.derived()

    def listed(self) -> Iterator[Leftover]:
        """One entry for each largest part whose leaves all have the same reason, or all have none."""
        marks = {self.page.marks[leaf] for leaf in self._leaves() if leaf not in self.page.empty}
        if len(marks) == 1:
            reason = marks.pop() or _Reason("left", *self._usual_reason(), self.loc)
            if not isinstance(reason, _Reason):
                return
            if self.loc[: len(reason.loc)] == reason.loc:  # given for this part or for one around it
                value = shown(self.value) if self.loc else ""
                yield self._leftover(reason.kind, reason.what, reason.remediation, value)
                return
        for child in (*dict(self.items()).values(), *self.each()):
            yield from child.listed()

    def _usual_reason(self) -> tuple[str, str]:
        """Why a field that was not read is left, and what to do: by its name, where that is known."""
        if isinstance(self.value, Unclear):
            return _UNCLEAR
        known = reasons().get(str(self.loc[-1]) if self.loc else "", {})
        return known.get("what", NO_PLACE), known.get("remediation", "")

    def _leftover(self, kind: Kind, what: str, remediation: str, value: str = "") -> Leftover:
        line, column = self.document.place(self.loc)
        return Leftover(
            category=Category[kind],
            file=self.document.file,
            line=line,
            column=column,
            object=self.document.title,
            path=path_text(self.loc),
            value=value,
            what=what,
            remediation=remediation,
        )
