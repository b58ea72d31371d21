"""One stack's objects -> what the policies say about them, in the words that Pulumi shows.

The policies are the stack's own and those of the folder `policies`; the stack's win where both have one of a
name, because they have this environment's parameters and waivers. It must not judge anything itself: the
engine does, and the bindings give the levels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpupool.policy_pack.resources import StackObject, Unjudged
from vapcheck import Kinds, PolicyFinding, check, from_bodies, read_files
from vapcheck.judging.redaction import without_secrets
from vapcheck.manifests.documents import is_taken
from vapcheck.outcome import Level
from vapcheck.server.minors import NEWEST

_STACK = "the stack"
_LEFT_OUT = frozenset({"unmatched-policy"})
"""What is about the policies and not about this stack: most stacks have no object for most policies."""
Identity = tuple[str, str, str, str]
"""apiVersion, kind, namespace (`default` where there is none), name."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One finding as Pulumi shows it."""

    level: Level
    message: str
    urn: str | None
    """The resource; None for the stack as a whole."""


def shipped_policies(folder: Path) -> list[Path]:
    """The policy files of a folder, without its sub-folders (fixtures)."""
    return sorted(path for path in folder.iterdir() if path.suffix in (".yaml", ".yml", ".json"))


def violations(
    objects: Sequence[StackObject],
    unjudged: Sequence[Unjudged],
    files: Sequence[Path],
    kubernetes: str = NEWEST,
) -> list[Violation]:
    """Everything that the policies of `files` and of the stack itself find in the stack, on a cluster of that
    version.

    What can't be judged is reported too, as a warning: a silent pass would look like a verdict.
    """
    documents = from_bodies((item.body for item in objects), _STACK)
    shipped, unreadable = read_files(list(files))
    urns = {_identity(item.body): item.urn for item in objects}
    policies = [document for document in shipped if _identity(document.body) not in urns]
    report = without_secrets(
        check(documents, policies=policies, kinds=Kinds.builtin(kubernetes)), [*documents, *policies]
    )
    return [
        *(Violation("warn" if is_taken(finding) else "deny", str(finding), None) for finding in unreadable),
        *(_violation(finding, urns) for finding in report.findings if finding.rule not in _LEFT_OUT),
        *(Violation("warn", f"not judged: {item.why}", item.urn) for item in unjudged),
    ]


def _violation(finding: PolicyFinding, urns: Mapping[Identity, str]) -> Violation:
    ref = finding.object
    urn = urns.get((ref.api_version, ref.kind, ref.namespace or "default", ref.name)) if ref else None
    subject = f" {ref}{f' {finding.path}' if finding.path else ''}:" if ref else ""
    lines = [f"{finding.rule}:{subject} {finding.message}"]
    if finding.remediation:
        lines.append(f"fix: {' '.join(finding.remediation.split())}")
    return Violation(finding.level, "\n".join(lines), urn)


def _identity(body: Mapping[str, Any]) -> Identity:
    metadata = body.get("metadata")
    known = metadata if isinstance(metadata, Mapping) else {}
    return (
        str(body.get("apiVersion")),
        str(body.get("kind")),
        str(known.get("namespace") or "default"),
        str(known.get("name") or ""),
    )
