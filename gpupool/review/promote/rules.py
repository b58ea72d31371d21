"""Which fields stay where they are: the rules of `shape.yaml`, and what an environment adds to them.

Decides by paths only, not by values. Pure but for reading its own data file once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path

import yaml

from gpupool.environment.spec.promotion import Promotion

_FILE = Path(__file__).with_name("shape.yaml")


@dataclass(frozen=True, slots=True)
class PathRule:
    """One path and whether what is at it and below stays."""

    path: str
    stays: bool
    rank: int
    """Of two rules for a field the one of the higher rank holds: the environment's own before the general
    ones, exceptions before both."""

    @property
    def precision(self) -> tuple[int, int, int]:
        """Sorts rules for one field; the longer path holds, and a name before `*`."""
        parts = self.path.split(".")
        return self.rank, len(parts), sum(part != "*" for part in parts)

    def covers(self, path: str) -> bool:
        """Whether `path` is the rule's or below it."""
        return _pattern(self.path).match(path) is not None


@cache
def _pattern(path: str) -> re.Pattern[str]:
    parts = (r"[^.]+" if part == "*" else re.escape(part) for part in path.split("."))
    return re.compile(rf"{'[.]'.join(parts)}(?:[.]|$)")


@dataclass(frozen=True)
class PromotionRules:
    """All rules that hold for promotions into one environment."""

    rules: tuple[PathRule, ...]

    def stays(self, path: str) -> bool:
        """Whether the field at `path` is the environment's own."""
        covering = [rule for rule in self.rules if rule.covers(path)]
        return max(covering, key=lambda rule: rule.precision).stays if covering else False

    def names(self, path: str) -> bool:
        """Whether the environment's file itself has a rule for the field at `path`."""
        return any(rule.rank and rule.covers(path) for rule in self.rules)

    def following(self, *paths: str) -> PromotionRules:
        """These rules, except for `paths`, which are promoted where the file does not name them itself."""
        added = (PathRule(path, False, 0) for path in paths)
        return PromotionRules((*(rule for rule in self.rules if rule.rank or rule.path not in paths), *added))


def rules_of(promotion: Promotion | None, today: date) -> PromotionRules:
    """The rules for an environment whose section `promotion` this is. Exceptions hold up to their day."""
    rules = [PathRule(path, True, 0) for path in general()]
    if promotion is not None:
        rules += (PathRule(path, True, 1) for path in promotion.keep)
        rules += (PathRule(path, False, 1) for path in promotion.follow)
        rules += (
            PathRule(exception.path, True, 2)
            for exception in promotion.exceptions
            if exception.until >= today
        )
    return PromotionRules(tuple(rules))


@cache
def general() -> dict[str, str]:
    """Path -> why it stays in every environment that does not say otherwise."""
    entries: Iterable[dict[str, str]] = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
    return {entry["path"]: entry["why"] for entry in entries}
