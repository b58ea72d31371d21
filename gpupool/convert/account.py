"""The account of a conversion: every single value of the input, and what happened to it.

Nothing can be dropped silently: `Account` has the leaves of all documents from the start, readers mark those
that they use, and leaves without a mark are listed at the end. A reader that forgets a field therefore makes
the list longer, never the result wrong.

It does not interpret the values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpupool.convert.documents import Document
from gpupool.convert.implied import implied
from gpupool.convert.leftovers import KINDS, Kind, Leftover, shown
from gpupool.convert.values import as_text, as_whole, leaves, same, value_at, walk
from gpupool.spec.yaml_scalars import Unclear
from gpupool.spec.yaml_source import Loc, path_text

NO_PLACE = "gpupool has no field for it"
_UNCLEAR = "readers of YAML disagree about what it means"


@dataclass(frozen=True, slots=True)
class _Entry:
    """A reason that was given for some leaves."""

    kind: Kind
    why: str
    advice: str
    loc: Loc
    """The part that the reason was given for."""


_USED, _DERIVED, _CLUSTER = "used", "derived", "cluster"
_Mark = str | _Entry


@dataclass(slots=True)
class _Page:
    """The leaves of one document."""

    document: Document
    marks: dict[Loc, _Mark | None] = field(default_factory=dict)
    empty: set[Loc] = field(default_factory=set)
    """Empty leaves, which do not prevent their parent from being listed as a whole."""


class Account:
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
        return [
            Part(self, index, page.document, (), page.document.data) for index, page in enumerate(self._pages)
        ]

    def mark(self, page: int, loc: Loc, mark: _Mark) -> None:
        """Mark all leaves at and below `loc`; the last mark holds."""
        marks = self._pages[page].marks
        for leaf in leaves(value_at(self._pages[page].document.data, loc), loc):
            marks[leaf] = mark

    def unmarked(self, part: Part) -> Iterator[tuple[tuple[str, ...], Part]]:
        """What below `part` bears no mark yet, with its path from there: scalars, and lists as a whole."""
        for key, inner in part.items():
            if isinstance(inner.value, dict) and inner.value:
                yield from (((key, *path), leaf) for path, leaf in self.unmarked(inner))
            elif self.is_unmarked(inner):
                yield (key,), inner

    def leave(self, part: Part, why: str) -> None:
        """List what below `part` bears no mark yet, with one reason."""
        marks, entry = self._pages[part.page].marks, _Entry("left", why, "", part.loc)
        for leaf in leaves(part.value, part.loc):
            if marks[leaf] is None:
                marks[leaf] = entry

    def is_unmarked(self, part: Part) -> bool:
        """Whether no leaf of `part` bears a mark."""
        marks = self._pages[part.page].marks
        return all(marks[leaf] is None for leaf in leaves(part.value, part.loc))

    def keep(self, part: Part) -> None:
        """Mark what below `part` bears no mark yet as the cluster's own."""
        marks = self._pages[part.page].marks
        for leaf in leaves(part.value, part.loc):
            if marks[leaf] is None:
                marks[leaf] = _CLUSTER

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
        listed = list(self._notes)
        for page in self._pages:
            listed += _listed(page)
        files = list(dict.fromkeys(page.document.file for page in self._pages))
        order = {name: number for number, name in enumerate(files)}
        return sorted(listed, key=lambda e: (KINDS.index(e.kind), order.get(e.file, -1), e.line))


@dataclass(frozen=True, slots=True)
class Part:
    """A value of a document, its place, and the methods that record what happened to it."""

    account: Account = field(repr=False)
    page: int
    document: Document
    loc: Loc
    value: Any = field(repr=False)

    def at(self, *path: str | int) -> Part | None:
        """The part at `path` below this one; None where there is none. A null is not a part."""
        value = value_at(self.value, path)
        return (
            None if value is None else Part(self.account, self.page, self.document, (*self.loc, *path), value)
        )

    def items(self) -> Iterator[tuple[str, Part]]:
        """The fields of a mapping; of anything else none."""
        for key in self.value if isinstance(self.value, dict) else ():
            yield key, Part(self.account, self.page, self.document, (*self.loc, key), self.value[key])

    def each(self) -> Iterator[Part]:
        """The items of a list; of anything else none."""
        for index, item in enumerate(self.value if isinstance(self.value, list) else ()):
            yield Part(self.account, self.page, self.document, (*self.loc, index), item)

    def used(self) -> None:
        """The result says it."""
        self.account.mark(self.page, self.loc, _USED)

    def derived(self) -> None:
        """gpupool derives the same from the result."""
        self.account.mark(self.page, self.loc, _DERIVED)

    def leave(self, why: str) -> None:
        """List what of each field bears no mark yet, with one reason."""
        for section in dict(self.items()).values():
            self.account.leave(section, why)

    def untouched(self) -> bool:
        """Whether no part of it is marked yet."""
        return self.account.is_unmarked(self)

    def uses(self, *names: str) -> None:
        """Mark the fields of these names as used; others stay unmarked."""
        for name in names:
            if inner := self.at(name):
                inner.used()

    def derives(self, *names: str) -> None:
        """Mark the fields of these names as derived by gpupool; others stay unmarked."""
        for name in names:
            if inner := self.at(name):
                inner.derived()

    def of_cluster(self) -> None:
        """The cluster writes it by itself: it is not a setting."""
        self.account.mark(self.page, self.loc, _CLUSTER)

    def left(self, why: str, advice: str = "", kind: Kind = "left") -> None:
        """The result does not say it, and here is why."""
        self.account.mark(self.page, self.loc, _Entry(kind, why, advice, self.loc))

    def wrong(self, why: str, advice: str) -> None:
        """It can't have worked as it is written."""
        self.left(why, advice, "wrong")

    def note(self, kind: Kind, why: str, advice: str = "", *path: str | int) -> None:
        """List something about this part that is not a value of it, such as a field that is missing."""
        loc = (*self.loc, *path)
        line, column = self.document.place(loc)
        entry = Leftover(
            kind, self.document.file, line, column, self.document.title, path_text(loc), "", why, advice
        )
        self.account.note(entry)

    def take(self, wanted: Callable[[Any], Any | None], what: str, *path: str | int) -> Any:
        """The value at `path` as `wanted` makes of it, marked as used. None where there is nothing; where
        `wanted` gives None the value is listed as being no `what`."""
        part = self.at(*path)
        if part is None:
            return None
        value = None if isinstance(part.value, Unclear) else wanted(part.value)
        if value is None:
            part.wrong(f"not {what}", f"write {what}")
        else:
            part.used()
        return value

    def text(self, *path: str | int) -> str | None:
        """The text at `path`, marked as used."""
        value: str | None = self.take(as_text, "text", *path)
        return value

    def whole(self, *path: str | int) -> int | None:
        """The whole number at `path`, as a number or as text, marked as used."""
        value: int | None = self.take(as_whole, "a whole number of 0 or more", *path)
        return value

    def truth(self, *path: str | int) -> bool | None:
        """The truth value at `path`, marked as used."""
        value: bool | None = self.take(lambda v: v if isinstance(v, bool) else None, "true or false", *path)
        return value

    def texts(self, *path: str | int) -> list[str]:
        """The list of texts at `path`, marked as used; what in it is not text is listed."""
        part = self.at(*path)
        if part is None:
            return []
        found = [item.text() for item in part.each()]
        if not isinstance(part.value, list) or not part.value:
            part.wrong("not a list with something in it", "write a list of words")
        return [value for value in found if value is not None]

    def says(self, expected: Any, *path: str | int) -> bool:
        """Whether the value at `path` is `expected`; if so, it is marked as derived."""
        part = self.at(*path)
        if part is None or not same(part.value, expected):
            return False
        part.derived()
        return True


def _reason(loc: Loc, value: Any) -> tuple[str, str]:
    """Why a field that was not read is left, and what to do: by its name, where that is known."""
    if isinstance(value, Unclear):
        return _UNCLEAR, "put it in quotes, or write true or false"
    known = implied()["reasons"].get(loc[-1] if loc else None, {})
    return known.get("why", NO_PLACE), known.get("advice", "")


def _listed(page: _Page) -> Iterator[Leftover]:
    """One entry for each largest part whose leaves all have the same reason, or all have none."""
    marks = page.marks

    def listed(value: Any, loc: Loc) -> Iterator[tuple[Loc, _Entry]]:
        found = {marks[leaf] for leaf in leaves(value, loc) if leaf not in page.empty}
        reason = found.pop() if len(found) == 1 else _USED
        if reason is None:
            why, advice = _reason(loc, value)
            yield loc, _Entry("left", why, advice, loc)
        elif isinstance(reason, _Entry) and loc[: len(reason.loc)] == reason.loc:
            yield loc, reason
        elif found or isinstance(reason, _Entry):
            inner = value.items() if isinstance(value, dict) else enumerate(value)
            for key, child in inner:
                yield from listed(child, (*loc, key))

    for loc, entry in listed(page.document.data, ()):
        line, column = page.document.place(loc)
        value = shown(value_at(page.document.data, loc)) if loc else ""
        yield Leftover(
            entry.kind,
            page.document.file,
            line,
            column,
            page.document.title,
            path_text(loc),
            value,
            entry.why,
            entry.advice,
        )
