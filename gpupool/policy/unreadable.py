"""What could not be read, as findings of a `policy check`: reported in every output, with its place.

Reads nothing; it handles only errors and findings.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpupool.findings import Finding
from vapcheck import PolicyFinding, Problem, is_not_kubernetes, is_taken

UNREADABLE = "unreadable"
"""The rule under which files that can't be read are reported."""
NOT_KUBERNETES = "not-kubernetes"
"""The rule under which files in a folder are reported that seem to be another tool's."""
DUPLICATE_KEY = "duplicate-key"
"""The rule under which keys are reported that appear twice in an object."""


def unreadable(problems: Iterable[Finding | Problem]) -> tuple[PolicyFinding, ...]:
    """A denial for each, but a warning for what is probably no manifest and for what kubectl takes."""
    return tuple(
        PolicyFinding(
            level="deny" if rule == UNREADABLE else "warn",
            rule=rule,
            message=problem.what if isinstance(problem, Finding) else problem.message,
            origin="document",
            file=problem.file,
            line=problem.line,
            column=problem.column,
            path=problem.path if isinstance(problem, Finding) else "",
            remediation=problem.remediation,
        )
        for problem in problems
        for rule in [_rule(problem)]
    )


def _rule(problem: Finding | Problem) -> str:
    if isinstance(problem, Finding):
        return UNREADABLE
    if is_taken(problem):
        return DUPLICATE_KEY
    return NOT_KUBERNETES if is_not_kubernetes(problem) else UNREADABLE
