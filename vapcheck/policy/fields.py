"""Reads fields from the JSON of a policy or a binding and records everything that is wrong.

Types, known names and choices are judged here, as the API server decodes them: null counts as absent, and
in a list of texts as an empty text. What a field means is for `policy_reader` and `match_rules`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

Problems = list[tuple[str, str]]
"""(path in the document, what is wrong and what would be right)."""


class FieldReader:
    """Reads one document; `problems` grows."""

    def __init__(self) -> None:
        self.problems: Problems = []

    def say(self, path: str, message: str) -> None:
        """Note a problem."""
        self.problems.append((path, message))

    def mapping(
        self, parent: dict[str, Any], key: str, path: str, known: Collection[str], required: bool = False
    ) -> dict[str, Any]:
        """The mapping at `key`, empty where there is none; `known` are its fields."""
        value = parent.get(key)
        if value is None:
            if required:
                self.say(path, "is required")
            return {}
        if not isinstance(value, dict):
            self.say(path, f"a mapping is expected, not {value!r}")
            return {}
        for name in value:
            if name not in known:
                self.say(f"{path}.{name}", f"unknown field; known are {', '.join(known)}")
        return value

    def rows(self, parent: dict[str, Any], key: str, path: str) -> list[Any]:
        """The list at `key`, empty where there is none."""
        value = parent.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            self.say(path, f"a list is expected, not {value!r}")
            return []
        return value

    def text(self, parent: dict[str, Any], key: str, path: str, required: bool = False) -> str:
        """The text at `key`, empty where there is none. One that is required must not be blank."""
        value = parent.get(key)
        if value is None or value == "":
            if required:
                self.say(path, "is required")
            return ""
        if not isinstance(value, str):
            self.say(path, f"a string is expected, not {value!r}; quote it")
            return ""
        if required and not value.strip():
            self.say(path, "must not be blank")
        return value

    def filled_text(self, parent: dict[str, Any], key: str, path: str) -> str:
        """The text at `key` without spaces around it: it may be left out, or empty, but not blank."""
        value = self.text(parent, key, path)
        if value and not value.strip():
            self.say(path, "must not be blank; write something, or leave it out")
        return value.strip()

    def choice(
        self, parent: dict[str, Any], key: str, path: str, choices: tuple[str, ...], default: str
    ) -> str:
        """One of `choices`; where there is none, the default. Empty is none of them."""
        if parent.get(key) is None:
            return default
        value = self.text(parent, key, path)
        if value not in choices and isinstance(parent[key], str):
            self.say(path, f"{value!r} is none of {', '.join(choices)}")
        return value

    def texts(
        self,
        parent: dict[str, Any],
        key: str,
        path: str,
        choices: tuple[str, ...] = (),
        unique: bool = False,
    ) -> tuple[str, ...]:
        """The texts at `key` that are right."""
        found: list[str] = []
        for index, value in enumerate(self.rows(parent, key, path)):
            value = "" if value is None else value
            if not isinstance(value, str):
                self.say(f"{path}[{index}]", f"a string is expected, not {value!r}; quote it")
            elif choices and value not in choices:
                self.say(f"{path}[{index}]", f"{value!r} is none of {', '.join(choices)}")
            elif unique and value in found:
                self.say(f"{path}[{index}]", f"{value!r} is given twice; take one out")
            else:
                found.append(value)
        return tuple(found)
