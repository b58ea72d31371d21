"""The pack's policies as Pulumi knows them: one for each level, because a Pulumi policy has one level only.

They judge the stack as a whole, so that its namespaces, parameters and bindings are known whatever the order
in which its resources are registered.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from pulumi_policy import (
    EnforcementLevel,
    Policy,
    ReportViolation,
    Severity,
    StackValidationArgs,
    StackValidationPolicy,
)

from gpupool.policy_pack.judgement import Violation, shipped_policies, violations
from gpupool.policy_pack.resources import StackObject, Unjudged, objects
from vapcheck.outcome import Level
from vapcheck.server.minors import NEWEST, nearest

NAME = "gpupool"
VERSION_VARIABLE = "GPUPOOL_KUBERNETES_VERSION"
"""The version of the cluster that stacks are for, as 1.34, which Pulumi does not pass to a pack; unset, the
newest known."""

_LEVELS: tuple[tuple[Level, EnforcementLevel, Severity, str], ...] = (
    (
        "deny",
        EnforcementLevel.MANDATORY,
        Severity.HIGH,
        "Refused by a ValidatingAdmissionPolicy, as the cluster would.",
    ),
    (
        "warn",
        EnforcementLevel.ADVISORY,
        Severity.MEDIUM,
        "A ValidatingAdmissionPolicy warns, as the cluster would.",
    ),
    (
        "audit",
        EnforcementLevel.ADVISORY,
        Severity.LOW,
        "A ValidatingAdmissionPolicy notes this; the cluster would only write it to its audit log.",
    ),
)
"""Audit is shown as well: Pulumi's own record of a run is what it shows. An organisation that wants quiet
disables the policy `audit` in the pack's configuration."""

Judged = tuple[list[StackObject], list[Unjudged]]


class _Judge:
    """Judges a stack once for all levels: Pulumi asks one policy after the other about the same stack."""

    def __init__(self, files: Sequence[Path], kubernetes: str) -> None:
        self._files = files
        self._kubernetes = kubernetes
        self._judged: Judged | None = None
        self._found: list[Violation] = []

    def __call__(self, stack: StackValidationArgs) -> list[Violation]:
        judged = objects(stack.resources)
        if judged != self._judged:
            self._found = violations(*judged, self._files, self._kubernetes)
            self._judged = judged
        return self._found


def stack_policies(folder: Path) -> list[Policy]:
    """The policies of the pack; `folder` is where the shipped policies are. Raises ValueError where
    GPUPOOL_KUBERNETES_VERSION is no version of Kubernetes."""
    kubernetes = os.environ.get(VERSION_VARIABLE) or NEWEST
    nearest(kubernetes)
    judge = _Judge(shipped_policies(folder), kubernetes)
    return [
        StackValidationPolicy(
            name=level,
            description=description,
            validate=_reports(judge, level),
            enforcement_level=enforcement,
            severity=severity,
        )
        for level, enforcement, severity, description in _LEVELS
    ]


def _reports(judge: _Judge, level: Level) -> Callable[[StackValidationArgs, ReportViolation], None]:
    def validate(stack: StackValidationArgs, report_violation: ReportViolation) -> None:
        for violation in judge(stack):
            if violation.level == level:
                report_violation(violation.message, violation.urn)

    return validate
