"""Findings of policy in two states: which are new, which are fixed, and how many stay.

A finding is known by its rule, object and path. How grave it is does not count, since a policy that is turned
down has not been kept. Asks `gpupool.policy.gate`, which is the only judge.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from gpupool.findings import Category, Finding
from gpupool.findings.of_policy import policy_finding
from gpupool.review.report.environment_state import EnvironmentState
from gpupool.review.report.model import FindingChanges

if TYPE_CHECKING:
    from vapcheck import Compiler, PolicyFinding

_HASHED = re.compile(r"(gpupool-(?:device-plugin|mig))-[0-9a-f]{10}")
"""Names that change with the content; the object is the same to people."""

NONE = FindingChanges((), (), 0)


@dataclass(frozen=True, slots=True)
class Judge:
    """What policy says, for one report."""

    today: date
    """By it waivers end."""
    plain: Callable[[str], str]
    """Every text goes through it."""

    def finding_changes(
        self, before: EnvironmentState | None, after: EnvironmentState | None
    ) -> FindingChanges:
        """How what policy says of one environment changes."""
        return _compared(self._found(before), self._found(after), self.plain)

    def changes_together(
        self, before: Sequence[EnvironmentState], after: Sequence[EnvironmentState]
    ) -> FindingChanges:
        """How what environments show only together changes."""
        return _compared(_together(before), _together(after), self.plain)

    def _found(self, state: EnvironmentState | None) -> Sequence[PolicyFinding]:
        if state is None:
            return ()
        from gpupool.policy.gate import judge

        return judge(state.plan, self.today, bundle=state.bundle, compiler=_compiler()).findings


@functools.cache
def _compiler() -> Compiler:
    """One for all reports of a process: they usually have the same policies."""
    from vapcheck import Compiler

    return Compiler()


def _together(states: Sequence[EnvironmentState]) -> Sequence[PolicyFinding]:
    from gpupool.policy.gate import judge_together

    return judge_together([state.plan for state in states]) if len(states) > 1 else ()


def _compared(
    old: Iterable[PolicyFinding], new: Iterable[PolicyFinding], plain: Callable[[str], str]
) -> FindingChanges:
    before = [_note(finding, plain) for finding in old if _counts(finding)]
    after = [_note(finding, plain) for finding in new if _counts(finding)]
    fixed, added = _beyond(before, after), _beyond(after, before)
    reported = sum(note.category is not Category.audit for note in after) - sum(
        note.category is not Category.audit for note in added
    )
    return FindingChanges(tuple(added), tuple(fixed), reported)


def _reported(notes: Iterable[Finding]) -> int:
    return sum(note.category is not Category.audit for note in notes)


def _counts(finding: PolicyFinding) -> bool:
    """Whether it is about the environment: the engine's own remarks are for the records."""
    return finding.level != "audit" or finding.origin == "policy"


def _beyond(notes: Sequence[Finding], others: Sequence[Finding]) -> list[Finding]:
    """Those of `notes` that are not among `others`, the gravest first."""
    left = Counter(map(_key, others))
    found = []
    for note in notes:
        if left[_key(note)]:
            left[_key(note)] -= 1
        else:
            found.append(note)
    return sorted(found, key=lambda note: (note.severity.rank, note.code, note.object, note.path))


def _key(note: Finding) -> tuple[str, str, str]:
    return note.code, note.object, note.path


def _note(found: PolicyFinding, plain: Callable[[str], str]) -> Finding:
    """`found` without what only its author needs."""
    finding = policy_finding(found)
    return Finding(
        code=finding.code,
        category=finding.category,
        object=_HASHED.sub(r"\1", finding.object),
        path=finding.path,
        what=plain(finding.what),
        remediation=plain(finding.remediation),
    )
