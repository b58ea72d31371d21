"""The blocks of a document: titles, tables, lists and pictures, with nothing said of how they look.

`gpupool.review.report.document` decides which there are and what they say; text, Markdown and HTML each lay
out these blocks, and know of a report nothing else. Sentences have a full stop where they end here, and none
in a cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from gpupool.environment.drawings import Bar
from gpupool.environment.plan.changes.model import BeforeAfter, PoolState
from gpupool.findings import Category

Style = Literal["plain", "code", "name", "strong", "quiet"]
"""code: as in a file. name: of somebody's own, in whatever script. quiet: what matters least."""


class Piece(NamedTuple):
    text: str
    style: Style = "plain"
    link: str = ""
    """Identity of the section that it leads to, where a page has links."""


Words: TypeAlias = tuple[Piece, ...]


def words(*pieces: str | Piece) -> Words:
    return tuple(Piece(piece) if isinstance(piece, str) else piece for piece in pieces if piece)


@dataclass(frozen=True, slots=True)
class Paragraph:
    words: Words
    quiet: bool = False
    """Only where there is room for what did not change."""


@dataclass(frozen=True, slots=True)
class AlertLine:
    category: Category
    kind: str
    """One word."""
    text: str
    """One sentence."""
    about: Piece | None = None
    """The section that it is about, where it stands outside of it."""
    in_step: bool = False
    """Whether a step below says the same, and how severe it is."""


@dataclass(frozen=True, slots=True)
class AlertLines:
    """The gravest first."""

    rows: Sequence[AlertLine]


class Column(NamedTuple):
    title: str
    number: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Words]]
    """Cells; a row's first one names it."""


class ValueChange(NamedTuple):
    """One value before and after; None where it is not set."""

    name: Piece
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class ValueChanges:
    title: str
    rows: Sequence[ValueChange]


class Amount(NamedTuple):
    """An amount before and after."""

    name: str
    before: str
    after: str
    difference: str
    """In words: `+8`, `at least as before, at most +$1,000`."""
    bars: tuple[Bar, Bar]
    always: bool = False
    """Shown also where it is the same."""

    @property
    def same(self) -> bool:
        return self.before == self.after


@dataclass(frozen=True, slots=True)
class Amounts:
    title: str
    rows: Sequence[Amount]


@dataclass(frozen=True, slots=True)
class Group:
    """What differs in one thing of several."""

    name: str
    change: str
    """added, removed, renamed or changed."""
    gist: str
    """On one line."""
    rows: Sequence[ValueChange]
    same: str = ""
    """What does not differ, on one line."""
    gpu: BeforeAfter[PoolState | None] | None = None
    """One GPU of it, where its picture differs."""


@dataclass(frozen=True, slots=True)
class Groups:
    of: str
    """What each of them is: `pool`."""
    rows: Sequence[Group]


@dataclass(frozen=True, slots=True)
class NodeStep:
    """One of several things that happen one after the other."""

    title: str
    where: Piece
    what: str
    why: str
    category: Category | None
    disruptive: bool
    table: Table | None


@dataclass(frozen=True, slots=True)
class NodeSteps:
    rows: Sequence[NodeStep]


@dataclass(frozen=True, slots=True)
class FindingLine:
    change: str
    """new or fixed; empty where there is nothing to compare with."""
    category: Category
    about: Words
    """The rule, and where it is broken."""
    message: str
    remediation: str


@dataclass(frozen=True, slots=True)
class FindingLines:
    rows: Sequence[FindingLine]


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    blocks: Sequence[Block]
    gist: str = ""
    """The section on one line."""
    fold: Literal["never", "if short of room", "always"] = "always"
    """Whether only title and gist are shown until somebody asks."""


Block: TypeAlias = (
    Paragraph | AlertLines | Table | ValueChanges | Amounts | Groups | NodeSteps | FindingLines | Section
)


@dataclass(frozen=True, slots=True)
class Chapter:
    """One environment, or all of them together."""

    identity: str
    """Letters, digits and hyphens; unique in the document."""
    title: str
    change: str
    about: Words
    blocks: Sequence[Block]


@dataclass(frozen=True, slots=True)
class ReportDocument:
    before: str
    """What the first of the two states is called ..."""
    after: str
    states: BeforeAfter[Words]
    """... and which they are exactly."""
    date: str
    headline: str
    notes: Sequence[str]
    overview: Sequence[Block]
    """What is said again below, for where there is room to begin with it."""
    chapters: Sequence[Chapter]
    unchanged: Words
    footer: Sequence[str]
