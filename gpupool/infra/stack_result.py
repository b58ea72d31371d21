"""The result of a run of preview, up, refresh or destroy, and the error that carries one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gpupool.findings import GpupoolError
from gpupool.infra.stack_events import EngineOutcome, ObjectChange

if TYPE_CHECKING:
    from gpupool.findings import Finding


class StackError(GpupoolError):
    """A run that did not get to its end. `result` is what it did get done."""

    def __init__(self, message: str, result: Result | None = None) -> None:
        super().__init__(message)
        self.result = result


@dataclass(frozen=True)
class Result:
    """One run: what it did (or would do) to which objects."""

    environment: str
    operation: str
    """preview, up, refresh or destroy."""
    outcome: EngineOutcome
    seconds: float
    outputs: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    """What else was done or found: a stale lock removed, objects that are not ready yet."""
    refused: str | None = None
    """Of a preview: why `up` will refuse this, and how to consent."""
    findings: tuple[Finding, ...] = ()
    """What policy warns of; what it denies is never run."""

    @property
    def objects(self) -> list[ObjectChange]:
        """The objects that changed."""
        return self.outcome.changed

    def noted(self, *texts: str) -> Result:
        """The same, with further notes."""
        return dataclasses.replace(self, notes=(*self.notes, *texts))

    def with_changes(self, changes: dict[str, ObjectChange], errors: Iterable[str] = ()) -> Result:
        """The same, with changes of objects, by URN, and errors that came after the engine's run."""
        objects, problems = self.outcome.objects | changes, [*self.outcome.errors, *errors]
        return dataclasses.replace(
            self, outcome=dataclasses.replace(self.outcome, objects=objects, errors=problems)
        )

    def as_dict(self) -> dict[str, Any]:
        """The run as `--format json` promises it."""
        return {
            "environment": self.environment,
            "operation": self.operation,
            "changes": self.outcome.counts,
            "objects": [entry.as_dict() for entry in self.objects],
            "outputs": dict(self.outputs),
            "notes": [*filter(None, [self.refused]), *self.notes, *self.outcome.warnings],
            "errors": self.outcome.errors,
            "seconds": round(self.seconds, 2),
        }
