"""What one run of the engine knows: what it is to do, what it has found so far, and the stack's state.

Filled by the steps before the engine (`stack_steps`) and those of the operation (`operations`), in order.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pulumi.automation import errors as automation_errors

from gpupool.findings import GpupoolError
from gpupool.generators.manifest import Bundle, Manifest
from gpupool.infra import locks, orphans, run_marks, state_files
from gpupool.infra.disk_reserve import DiskReserve
from gpupool.infra.engine import PROJECT, Command, EngineError, EngineStack, Report
from gpupool.infra.stack_events import ObjectChange
from gpupool.infra.stack_result import Result
from gpupool.plan.model import Plan

if TYPE_CHECKING:
    from gpupool.findings import Finding

Verdict = Callable[[], "tuple[Finding, ...]"]
"""Waits for what policy says: its warnings. Raises PolicyRefusalError."""


class RunContext:
    """What the steps of a run hand on to each other."""

    def __init__(
        self,
        plan: Plan,
        bundle: Bundle,
        operation: str,
        report: Report,
        verdict: Verdict = tuple,
        allow_delete: Iterable[str] = (),
    ) -> None:
        self.plan, self.bundle, self.operation, self.report = plan, bundle, operation, report
        self.verdict, self.allow_delete = verdict, frozenset(allow_delete)
        self.started = time.monotonic()
        self.warnings: tuple[Finding, ...] = ()
        self.notes: list[str] = []
        self.stack: EngineStack
        self.command: Command
        """The engine's process, which is interrupted by it."""
        self.begun = False
        """Whether the program was reached: up to there nothing is registered, and nothing was changed."""
        self.program_error: GpupoolError | None = None
        self.marks: run_marks.Marks
        self.recorded: dict[str, Any] | None = None
        """The stack's state as it was found; None where there was no such stack."""
        self.deployment: dict[str, Any] = {}
        """The state on which the engine goes on."""
        self.disk = DiskReserve("", PROJECT, plan.environment)
        self.held = orphans.OwnObjects()
        """What the cluster holds of the environment."""
        self.under_way: frozenset[str] = frozenset()
        """Names in Pulumi of what an interrupted run was making, changing or deleting."""
        self.gone: frozenset[orphans.Key] = frozenset()
        """What the state names and the cluster does not hold as ours."""
        self.lost: list[str] = []
        """URNs of the protected things that the engine would delete."""
        self.refused: str | None = None
        """Why they may not go, and how to consent; None where they may."""
        self.apart: dict[str, ObjectChange] = {}
        """By URN: what is done, or would be, without the engine."""
        self.orphans: tuple[Manifest, ...] = ()
        """Objects of this environment in the cluster that are not in the state and, except for `destroy`, not
        in the file."""
        self.result: Result
        """Since the engine has run."""

    @property
    def stack_name(self) -> str:
        return self.plan.environment

    @property
    def backend(self) -> str:
        """URL of where the state lies."""
        return self.stack.variables.get("PULUMI_BACKEND_URL") or os.environ.get("PULUMI_BACKEND_URL", "")

    @contextlib.contextmanager
    def in_our_words(self) -> Iterator[None]:
        """What the engine says about a command on the state, as errors of ours."""
        try:
            yield
        except automation_errors.ConcurrentUpdateError as error:
            raise locks.locked(self.backend, PROJECT, self.plan.environment) from error
        except automation_errors.CommandError as error:
            text, url = plain_error(error), self.backend
            damaged = state_files.damaged(url, PROJECT, self.plan.environment, text)
            raise damaged or EngineError(state_files.disk_problem([text], url) or text) from error

    def exported(self) -> dict[str, Any] | None:
        """What the stack's state says; None where there is no such stack yet."""
        with self.in_our_words():
            try:
                return dict(self.stack.export_stack().deployment or {})
            except automation_errors.CommandError as error:
                if "no stack named" not in str(error):
                    raise
            return None

    def created(self) -> dict[str, Any]:
        """An empty state, of a stack that is there from now on."""
        with self.in_our_words(), contextlib.suppress(automation_errors.StackAlreadyExistsError):
            self.stack.workspace.create_stack(self.stack.name)  # unless another run just did
        return {}

    def unprotect(self, what: str) -> None:
        """Allow one URN, or `--all`, to be deleted."""
        args = ["state", "unprotect", what, "--yes", "--stack", self.stack.name]
        workspace = self.stack.workspace
        with self.in_our_words():
            workspace.pulumi_command.run(args, workspace.work_dir, workspace.env_vars)

    def note(self, text: str) -> None:
        """Report, and keep for the result."""
        self.notes.append(text)
        self.report(text)

    def add_notes(self, *notes: str) -> None:
        """To the result, which is there by now."""
        self.result = dataclasses.replace(self.result, notes=(*self.result.notes, *notes))


def plain_error(error: Exception) -> str:
    """What the engine wrote to stderr, without the SDK's frame around it."""
    text = str(error)
    _, _, stderr = text.partition("stderr:")
    lines = [line.strip() for line in (stderr or text).splitlines()]
    reported = [line.removeprefix("error: ") for line in lines if line and not line.startswith("code:")]
    return "\n".join(reported) or text
