"""What the policy engine says of an object, as a Finding: the one place where its own type becomes ours.

The engine is a library of its own (vapcheck). The rules over a bundle use its type too: one report is cleared
of the contents of Secrets as a whole before anything of it is shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpupool.findings.finding import Finding
from gpupool.findings.severity import Category

if TYPE_CHECKING:
    from vapcheck import PolicyFinding


def policy_finding(found: PolicyFinding) -> Finding:
    """`found` with everything that it says."""
    ref = found.object
    resource = ref and {
        "apiVersion": ref.api_version,
        "kind": ref.kind,
        "namespace": ref.namespace,
        "name": ref.name,
    }
    return Finding(
        code=found.rule,
        category=Category[found.level],
        what=found.message,
        why=found.why,
        remediation=found.remediation,
        file=found.file,
        line=found.line,
        column=found.column,
        path=found.path,
        object=str(ref or ""),
        title=found.title,
        expression=found.expression,
        values=found.values,
        details={
            "resource": resource,
            "origin": found.origin,
            "binding": found.binding,
            "reason": found.reason,
        },
    )
