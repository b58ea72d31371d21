"""Reads fields from the JSON of a policy or a binding and records everything that is wrong.

Types, known names and choices are judged here, as the API server decodes them: null counts as absent, and
in a list of texts as an empty text. What a field means is for `reader` and `match_rules`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

Problems = list[tuple[str, str]]
"""(path in the document, what is wrong and what would be right)."""


class Fields:
    """The fields of one mapping of a document, whose problems all its mappings share."""

    def __init__(self, values: dict[str, Any], path: str, problems: Problems) -> None:
        self.values, self._path, self._problems = values, path, problems

    def path(self, key: str) -> str:
        """The path in the document."""
        return f"{self._path}.{key}" if self._path and key else self._path or key

    def say(self, key: str, message: str) -> None:
        """Note a problem of a field; without a key, of the mapping itself."""
        self._problems.append((self.path(key), message))

    def mapping(self, key: str, known: Collection[str], required: bool = False) -> Fields:
        """The mapping at `key`, empty where there is none; `known` are its fields."""
        return self._mapping(self.values.get(key), key, known, required)

    def _mapping(self, value: Any, key: str, known: Collection[str], required: bool) -> Fields:
        fields = Fields(value if isinstance(value, dict) else {}, self.path(key), self._problems)
        if value is None and required:
            self.say(key, "is required")
        elif value is not None and not isinstance(value, dict):
            self.say(key, f"expected a mapping, not {value!r}")
        for name in fields.values:
            if name not in known:
                fields.say(name, f"unknown field; known fields: {', '.join(known)}")
        return fields

    def rows(self, key: str, known: Collection[str]) -> Iterator[Fields]:
        """The mappings in the list at `key`, none where there is none; `known` are the fields of each."""
        for index, row in enumerate(self._list(key)):
            yield self._mapping(row, f"{key}[{index}]", known, required=True)

    def _list(self, key: str) -> list[Any]:
        value = self.values.get(key)
        if value is None or isinstance(value, list):
            return value or []
        self.say(key, f"expected a list, not {value!r}")
        return []

    def text(self, key: str, required: bool = False) -> str:
        """The text at `key`, empty where there is none. One that is required must not be blank."""
        value = self.values.get(key)
        if value is None or value == "":
            if required:
                self.say(key, "is required")
            return ""
        if not isinstance(value, str):
            self.say(key, f"expected a string, not {value!r}; quote it")
            return ""
        if required and not value.strip():
            self.say(key, "must not be blank")
        return value

    def filled_text(self, key: str) -> str:
        """The text at `key` without spaces around it: it may be left out, or empty, but not blank."""
        value = self.text(key)
        if value and not value.strip():
            self.say(key, "must not be blank; write a value, or remove it")
        return value.strip()

    def choice(self, key: str, choices: tuple[str, ...], default: str) -> str:
        """One of `choices`; where there is none, the default. Empty is none of them."""
        if self.values.get(key) is None:
            return default
        value = self.text(key)
        if value not in choices and isinstance(self.values[key], str):
            self.say(key, f"{value!r} is none of {', '.join(choices)}")
        return value

    def texts(self, key: str, choices: tuple[str, ...] = (), unique: bool = False) -> tuple[str, ...]:
        """The texts at `key` that are right."""
        found: list[str] = []
        for index, value in enumerate(self._list(key)):
            value = "" if value is None else value
            if not isinstance(value, str):
                self.say(f"{key}[{index}]", f"expected a string, not {value!r}; quote it")
            elif choices and value not in choices:
                self.say(f"{key}[{index}]", f"{value!r} is none of {', '.join(choices)}")
            elif unique and value in found:
                self.say(f"{key}[{index}]", f"{value!r} appears twice; remove one")
            else:
                found.append(value)
        return tuple(found)
