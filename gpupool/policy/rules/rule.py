"""What a bundle rule is, and how what it finds becomes a finding. No rule lives here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from gpupool.policy.rules.bundle import BundleObject, JudgedRelease, ObjectSet
from vapcheck import Level, PolicyFinding

Judged = TypeVar("Judged", ObjectSet, Sequence[ObjectSet])


@dataclass(frozen=True, slots=True)
class RuleViolation:
    """One thing that is wrong: the fact, where it is, and the figures behind it."""

    message: str
    object: BundleObject | JudgedRelease | None = None
    """None where it is about the bundle as a whole."""
    path: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rule(Generic[Judged]):
    """A rule over one bundle, or over several."""

    name: str
    check: Callable[[Judged], Iterable[RuleViolation]]
    title: str
    why: str
    remediation: str
    level: Level = "deny"
    supposes_whole: bool = False
    """Whether it takes what is missing for an error. A folder without a Plan may be
    incomplete, so there the level is `warn` at most."""

    def findings(self, judged: Judged, whole: bool) -> Iterator[PolicyFinding]:
        """What the rule finds. `whole`: nothing is missing from what is judged."""
        level: Level = "warn" if self.supposes_whole and not whole and self.level == "deny" else self.level
        for found in self.check(judged):
            subject = found.object
            yield PolicyFinding(
                level=level,
                rule=self.name,
                message=found.message,
                origin="bundle",
                object=subject.ref if subject else None,
                file=subject.file if subject else "",
                line=subject.line if subject else 0,
                path=found.path,
                values=found.values,
                title=self.title,
                why=self.why,
                remediation=self.remediation,
            )
