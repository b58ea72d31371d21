"""What one `policy check` found, what it was asked, and where each finding is, as one would type the file.

Judges nothing, prints nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from vapcheck import PolicyFinding, Report

UNMATCHED = "unmatched-policy"
"""The engine's rule for policies that were evaluated on no object."""
UNPARAMETERISED = "missing-parameter"
"""The engine's rule for policies that were applied to no object because a parameter is missing."""
NO_MATCH = "matched no object"


@dataclass(frozen=True, slots=True)
class Check:
    """One run of `policy check`: what was found, and what it was asked."""

    report: Report
    targets: tuple[str, ...]
    """As the user gave them."""
    policies_from: tuple[str, ...]
    """The files and folders whose policies were used, as the user would name them."""
    seconds: float
    """Wall time of reading and judging."""

    @property
    def findings(self) -> list[PolicyFinding]:
        """In the order of reading: by file and line; then denials before warnings."""
        order = ("deny", "warn", "audit")
        return sorted(
            self.report.findings,
            key=lambda finding: (finding.file, finding.line, order.index(finding.level), finding.rule),
        )

    def count(self, level: str) -> int:
        """How many findings have this level."""
        return sum(finding.level == level for finding in self.report.findings)


def is_idle(finding: PolicyFinding) -> bool:
    """Whether it only says that a policy was applied to nothing, which is not an error."""
    return finding.rule in (UNMATCHED, UNPARAMETERISED) and finding.level == "audit"


def idle_policies(check: Check) -> dict[str, str]:
    """The policies that were applied to nothing, by name, and why: `NO_MATCH`, perhaps with a cause, or what
    is missing."""
    reasons = {name: NO_MATCH for name, matched in check.report.matched.items() if not matched}
    for finding in check.report.findings:
        if is_idle(finding) and finding.object and finding.object.name in reasons:
            reasons[finding.object.name] = finding.message
    return dict(sorted(reasons.items()))


def relative(file: str) -> str:
    """`file` from the working directory where it lies below it, with `/` between folders."""
    path = Path(file)
    if path.is_absolute():
        here = Path.cwd()
        path = path.relative_to(here) if path.is_relative_to(here) else path
    return path.as_posix()
