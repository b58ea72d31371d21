"""Placeholders in files of other tools: encrypted values, references to secret stores, variables, templates.

They are never carried over: in an environment file they would be taken for what they say. An object or a
configuration with one is not read at all, since what is left of it may mean more than was intended; of Helm
values those with one are left out. The forms are in `placeholders.yaml`; this is its only reader. Texts of
several lines are not looked into: scripts have variables of their own.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from gpupool.adopt.convert.documents import Document
from gpupool.adopt.convert.leftovers import Leftover, shown
from gpupool.environment.spec.yaml_source import Loc, path_text
from gpupool.findings import Category

_SOPS = "sops"
_OF_SOPS = {"mac", "lastmodified", "version"}


@dataclass(frozen=True, slots=True)
class Form:
    """One way to write a placeholder."""

    name: str
    pattern: re.Pattern[str]
    what: str
    remediation: str
    secret: bool


@dataclass(frozen=True, slots=True)
class Placeholder:
    """A key or value that has one."""

    loc: Loc
    text: str
    form: Form

    def leftover(self, document: Document) -> Leftover:
        """Its entry in the list of what is left."""
        line, column = document.place(self.loc)
        value = "" if self.form.secret else shown(self.text)
        return Leftover(
            code="placeholder",
            category=Category.todo,
            file=document.file,
            line=line,
            column=column,
            object=document.title,
            path=path_text(self.loc),
            value=value,
            what=self.form.what,
            remediation=self.form.remediation,
        )


@functools.cache
def forms() -> tuple[Form, ...]:
    rows = yaml.safe_load((Path(__file__).parent / "placeholders.yaml").read_bytes())
    return tuple(
        Form(
            row["name"], re.compile(row["pattern"]), row["what"], row["remediation"], row.get("secret", False)
        )
        for row in rows
    )


def form_of(text: Any) -> Form | None:
    """The form of the placeholder in `text`; None where it has none."""
    if not isinstance(text, str) or "\n" in text.strip():
        return None
    return next((form for form in forms() if form.pattern.search(text)), None)


def placeholders(document: Document) -> list[Placeholder]:
    """All of them, in their order; of an object not those in what tools and servers note on it. The name of a
    configuration within another object counts."""
    named = [Placeholder((), document.key, form)] if (form := form_of(document.key)) else []
    rest = (item for item in _in(document.data, ()) if not document.kind or not _noted(item.loc))
    return [*named, *rest]


def _noted(loc: Loc) -> bool:
    return loc[:1] == ("status",) or loc[:2] in (("metadata", "annotations"), ("metadata", "managedFields"))


def _in(value: Any, loc: Loc) -> Iterator[Placeholder]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if form := form_of(key):
                yield Placeholder((*loc, key), str(key), form)
            elif _is_sops(key, inner):
                yield Placeholder((*loc, key), "", next(form for form in forms() if form.name == _SOPS))
            else:
                yield from _in(inner, (*loc, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _in(inner, (*loc, index))
    elif form := form_of(value):
        yield Placeholder(loc, value, form)


def _is_sops(key: str, value: Any) -> bool:
    """Whether it is what SOPS adds to a file that it has encrypted (SOPS 3.9, README)."""
    return key == _SOPS and isinstance(value, dict) and bool(_OF_SOPS & value.keys())


def without(document: Document) -> tuple[Document, list[Leftover]]:
    """Values without those that have a placeholder, and their entries in the list. An item of a list goes as
    a whole."""
    unfilled = placeholders(document)
    gone = {item.loc for item in unfilled}
    entries = [item.leftover(document) for item in unfilled]
    return replace(document, data=_rest(document.data, (), gone)), entries


def _rest(value: Any, loc: Loc, gone: set[Loc]) -> Any:
    if isinstance(value, dict):
        return {
            key: _rest(inner, (*loc, key), gone) for key, inner in value.items() if (*loc, key) not in gone
        }
    if isinstance(value, list):
        kept = [
            (index, inner)
            for index, inner in enumerate(value)
            if not any(place[: len(loc) + 1] == (*loc, index) for place in gone)
        ]
        return [_rest(inner, (*loc, index), gone) for index, inner in kept]
    return value
