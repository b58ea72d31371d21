"""What a check says: findings with their object, place and explanation.

The types that the engine, the bundle rules and the outputs share.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Level = Literal["deny", "warn", "audit"]
"""What follows: `deny` fails the check (exit 1), `warn` is shown, `audit` is only recorded."""
Origin = Literal["policy", "engine", "document", "waiver", "bundle"]
"""The source of the finding: a policy about an object; the engine about a policy; the reader about a file;
and so on."""


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """One object of a bundle."""

    api_version: str
    kind: str
    namespace: str | None
    name: str

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> ObjectRef:
        """The reference of an object; of one that is to get a name, the beginning of it."""
        metadata = body.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        namespace = metadata.get("namespace")
        return cls(
            str(body.get("apiVersion", "")),
            str(body.get("kind", "")),
            str(namespace) if namespace is not None else None,
            str(metadata.get("name") or metadata.get("generateName") or ""),
        )

    def __str__(self) -> str:
        where = f"{self.namespace}/" if self.namespace else ""
        return f"{self.kind} {where}{self.name}"


@dataclass(frozen=True, slots=True)
class PolicyFinding:
    """One thing that a check found. Lines and columns count from 1; 0 where there is no place."""

    level: Level
    rule: str
    """Name of the policy or of the bundle rule, or what the engine calls the problem (`unmatched-policy`)."""
    message: str
    """As the API server would word it for a policy."""
    origin: Origin = "policy"
    binding: str | None = None
    object: ObjectRef | None = None
    file: str = ""
    line: int = 0
    column: int = 0
    path: str = ""
    """Where in the object, as `spec.template.spec.containers[0]`, when it is known."""
    reason: str = ""
    """The validation's reason: Unauthorized, Forbidden, Invalid or RequestEntityTooLarge."""
    expression: str = ""
    """The CEL expression that failed."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Values of the variables that the expression reads, by name as written (`variables.pool`)."""
    shows_values: bool = False
    """Whether the message is the error of an expression, which shows the value that it is about."""
    title: str = ""
    why: str = ""
    remediation: str = ""
    """How to fix it."""


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that one check found."""

    findings: tuple[PolicyFinding, ...]
    objects: int
    """How many objects were judged."""
    evaluations: int
    """How many CEL expressions were evaluated."""
    matched: Mapping[str, int]
    """How many objects each policy was evaluated on, by policy name; 0 is reported as a finding too."""
    reached: Mapping[str, int] = field(default_factory=dict)
    """How far any object got with a policy that was not evaluated on it, by its name; larger is further."""

    @property
    def denied(self) -> bool:
        """Whether any finding is a denial."""
        return any(finding.level == "deny" for finding in self.findings)
