"""Label selectors, as Kubernetes reads and applies them.

It handles labels only; the caller decides which object's labels are meant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vapcheck.server.name_forms import LABEL_KEY, is_label_key, is_label_value

_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on the value of one label."""

    key: str
    operator: str
    """In, NotIn, Exists or DoesNotExist."""
    values: frozenset[str]

    def matches(self, labels: Mapping[str, str]) -> bool:
        """NotIn and DoesNotExist hold for a label that is absent."""
        if self.operator == "In":
            return labels.get(self.key) in self.values
        if self.operator == "NotIn":
            return labels.get(self.key) not in self.values
        return (self.key in labels) == (self.operator == "Exists")

    def __str__(self) -> str:
        """As `kubectl get -l` takes it."""
        values = ",".join(sorted(self.values))
        if self.operator == "In":
            return f"{self.key}={values}" if len(self.values) == 1 else f"{self.key} in ({values})"
        if self.operator == "NotIn":
            return f"{self.key} notin ({values})"
        return self.key if self.operator == "Exists" else f"!{self.key}"


@dataclass(frozen=True, slots=True)
class Selector:
    """All requirements together; one without any matches everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether every requirement holds."""
        return all(requirement.matches(labels) for requirement in self.requirements)


EVERYTHING = Selector()


def read_selector(body: Any) -> tuple[Selector, list[tuple[str, str]]]:
    """The selector of a LabelSelector's JSON, and what is wrong with it as (path inside, message)."""
    if body is None:
        return Selector(), []
    if not isinstance(body, dict):
        return Selector(), [("", "a selector is a mapping of matchLabels and matchExpressions")]
    problems = [(f"{key}", "unknown field") for key in body if key not in ("matchLabels", "matchExpressions")]
    requirements: list[Requirement] = []
    labels = body.get("matchLabels")
    labels = {} if labels is None else labels
    if not isinstance(labels, dict):
        problems.append(("matchLabels", "expected a mapping of label to value"))
        labels = {}
    for key, value in labels.items():
        path = f"matchLabels[{key}]"
        problems += _wrong_key(key, path) + _wrong_value(value, path)
        requirements.append(Requirement(key, "In", frozenset([_text(value)])))
    rows = body.get("matchExpressions")
    rows = [] if rows is None else rows
    if not isinstance(rows, list):
        problems.append(("matchExpressions", "expected a list"))
        rows = []
    for index, row in enumerate(rows):
        requirement, wrong = _expression(row, f"matchExpressions[{index}]")
        problems += wrong
        if requirement:
            requirements.append(requirement)
    return Selector(tuple(requirements)), problems


def _expression(row: Any, path: str) -> tuple[Requirement | None, list[tuple[str, str]]]:
    if not isinstance(row, dict):
        return None, [(path, "expected a mapping of key, operator and values")]
    key, operator, values = row.get("key"), row.get("operator"), row.get("values")
    values = [] if values is None else values
    problems = _wrong_key(key, f"{path}.key")
    if operator not in _OPERATORS:
        known = ", ".join(_OPERATORS)
        wrong = (
            f"is required; choose one of {known}" if operator is None else f"{operator!r} is none of {known}"
        )
        return None, [*problems, (f"{path}.operator", wrong)]
    if not isinstance(values, list):
        return None, [*problems, (f"{path}.values", "expected a list")]
    if operator in ("In", "NotIn") and not values:
        problems.append((f"{path}.values", f"{operator} needs at least one value"))
    if operator in ("Exists", "DoesNotExist") and values:
        problems.append((f"{path}.values", f"{operator} takes no values"))
    for number, value in enumerate(values):
        problems += _wrong_value(value, f"{path}.values[{number}]")
    return Requirement(_text(key), operator, frozenset(map(_text, values))), problems


def _text(value: Any) -> str:
    """As the server reads it: null is an empty text."""
    return "" if value is None else str(value)


def _wrong_key(key: Any, path: str) -> list[tuple[str, str]]:
    if not isinstance(key, str) or not is_label_key(key):
        return [(path, f"{key!r} is not a label key: {LABEL_KEY}")]
    return []


def _wrong_value(value: Any, path: str) -> list[tuple[str, str]]:
    if value is not None and not isinstance(value, str):
        return [(path, f"{value!r} is not a string; quote it")]
    if not is_label_value(_text(value)):
        return [(path, f"{value!r} is not a label value: at most 63 letters, digits, '-', '_', '.'")]
    return []
