"""What one `policy check` found and what it was asked. Judges nothing, prints nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpupool.findings import Category, FindingReport
from gpupool.findings.of_policy import policy_finding
from vapcheck import PolicyFinding, Report

UNMATCHED = "unmatched-policy"
"""The engine's rule for policies that were evaluated on no object."""
UNPARAMETERISED = "missing-parameter"
"""The engine's rule for policies that were applied to no object because a parameter is missing."""
NO_MATCH = "matched no object"
_COUNTED = {
    Category.deny: ("denied", "denied"),
    Category.warn: ("warning", "warnings"),
    Category.audit: ("audited", "audited"),
}
"""What the summary counts, one and several."""


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

    def finding_report(self) -> FindingReport:
        """Its findings in the order of reading: by file and line; then the severest first. Policies that were
        applied to nothing are among what was judged."""
        found = [policy_finding(row) for row in self.report.findings if not is_idle(row)]
        found.sort(key=lambda finding: (finding.file, finding.line, finding.severity.rank, finding.code))
        counts = {name: sum(row.category is name for row in found) for name in _COUNTED}
        idle = idle_policies(self)
        more = {
            "denied": self.report.denied,
            "summary": {
                **{name.value: count for name, count in counts.items()},
                "objects": self.report.objects,
                "evaluations": self.report.evaluations,
            },
            "targets": list(self.targets),
            "policiesFrom": list(self.policies_from),
            "policies": [
                {"name": name, "matched": count, "notApplied": idle.get(name, "")}
                for name, count in self.report.matched.items()
            ],
        }
        return FindingReport(
            command="policy check",
            findings=tuple(found),
            summary=self._summary(counts),
            targets=self.targets,
            judged={name: idle.get(name, "") if self.report.objects else "" for name in self.report.matched},
            seconds=self.seconds,
            more=more,
        )

    def _summary(self, counts: Mapping[Category, int]) -> str:
        """`2 denied, 1 warning: 31 objects, 12 policies from policies (0.2 s)`."""
        report = self.report
        words = [f"{count} {_COUNTED[name][count != 1]}" for name, count in counts.items() if count]
        source = f" from {', '.join(self.policies_from)}" if self.policies_from else ""
        objects = f"{report.objects} object{'' if report.objects == 1 else 's'}"
        policies = f"{len(report.matched)} polic{'y' if len(report.matched) == 1 else 'ies'}"
        if report.matched and not report.objects:
            compiled = f"{policies} compile{'s' if len(report.matched) == 1 else ''}"
            return f"{', '.join(words) or 'passed'}: {objects}; {compiled} ({self.seconds:.1f} s)"
        return f"{', '.join(words) or 'passed'}: {objects}, {policies}{source} ({self.seconds:.1f} s)"


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
