"""One run of the engine on one stack, and what it amounts to.

Which runs there are, and what is judged before them, is decided in `stack`; what must be in order before the
engine runs, in `stack_steps`.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any

from pulumi.automation import errors as automation_errors

from gpupool.findings import GpupoolError
from gpupool.generators.manifest import Bundle, Manifest
from gpupool.infra import (
    access,
    apply,
    locks,
    orphans,
    program,
    recovery,
    resource_values,
    stack_steps,
    state_files,
    unrecorded,
)
from gpupool.infra.engine import PROJECT, interruptible, opened
from gpupool.infra.run_context import RunContext, plain_error
from gpupool.infra.stack_events import Collector, ObjectChange, removal
from gpupool.infra.stack_result import Result, StackError
from gpupool.infra.unrecorded import cluster_id

_GARBAGE = 50_000
"""Allocations between garbage collections (Python: 700). What thousands of resources hold is no garbage, and
collecting took a third of the time in which they are registered."""
_CUT_OFF = "Resource monitor has terminated"
"""What the SDK says where gRPC calls the engine unavailable (Pulumi 3.259). Rarely it does so of one that has
just started; while the program was not reached nothing was registered, and the run may be started again."""

_STOPPED = {"update canceled", "preview canceled"}
"""What the engine says of a run that was stopped in an orderly way, if anything (Pulumi 3.259,
deployment_executor.go)."""


class Run(RunContext):
    """One engine run on one stack, from its first step to its result."""

    _program_error: GpupoolError | None = None
    _begun = False
    """Whether the program was reached: up to there nothing is registered, and nothing was changed."""

    def _program(self, bundle: Bundle) -> Awaitable[None]:
        import pulumi

        self._begun = True
        # Each of the SDK's debug lines, four for an object, is a call to the engine that is waited for.
        pulumi.log.debug = _unsaid
        try:
            return apply.registered(program.register(self.plan, bundle))
        except GpupoolError as error:
            self._program_error = error
            raise pulumi.RunError(str(error)) from None

    def __enter__(self) -> Run:
        self._started = time.monotonic()
        for step in stack_steps.BEFORE_THE_ENGINE:
            step(self)
        plan, bundle = self.plan, self.bundle
        with contextlib.ExitStack() as opening:
            engine = opened(
                plan.environment, plan.cluster.platform, lambda: self._program(bundle), self.report
            )
            self.stack, self._command = opening.enter_context(engine)
            opening.callback(lambda: self.disk.release())
            for step in stack_steps.STEPS:
                step(self)
            self._closing = opening.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._closing.__exit__(*error)

    def losses(self, allowed: Iterable[str]) -> tuple[list[str], str | None]:
        """URNs of the protected things that the engine would delete, and, where not all that would go is
        `allowed`, how to consent.

        Raises UsageError for a name in `allowed` that does not go.
        """
        kept, named = [resource_values.logical_name(manifest) for manifest in self.bundle], set(allowed)
        lost, beside = recovery.losses(self.deployment, kept), orphans.protected(self.orphans)
        recovery.require_going(named - beside, self.deployment, kept)
        return [*lost.values()], recovery.consent((lost.keys() | beside) - named, self.plan.environment)

    def unprotect(self, what: str) -> None:
        """Allow one URN, or `--all`, to be deleted."""
        args = ["state", "unprotect", what, "--yes", "--stack", self.stack.name]
        workspace = self.stack.workspace
        with self.in_our_words():
            workspace.pulumi_command.run(args, workspace.work_dir, workspace.env_vars)

    def _attempt(self, operation: Callable[..., Any]) -> tuple[Collector, BaseException | None, bool]:
        """What one run of the engine reports, what it raised, and whether it was interrupted."""
        collector = Collector(self.report)
        gc.freeze()
        gc.set_threshold(_GARBAGE)

        def stopping(notice: str) -> None:
            collector.silent = True  # a step that was just begun would hide the notice
            self.report(notice)

        again = {"refresh": True} if self.marks.left and self.operation != "refresh" else {}
        with self._marked() as mark:
            work = functools.partial(operation, on_event=collector, **again)
            failure, interrupted = interruptible(work, self._command, stopping, self.disk.watch)
            mark["whole"] = failure is None and not interrupted and not collector.outcome.errors
        return collector, failure, interrupted

    @contextlib.contextmanager
    def _marked(self) -> Iterator[dict[str, bool]]:
        """Have the engine save the state once, at the end, where what a killed run did is found again."""
        outcome = {"whole": False}
        chosen = self.plan.cluster.platform == "static"
        safe = self.marks.possible and unrecorded.found_again(
            self.operation, self.bundle, self.deployment, chosen
        )
        if self.operation == "preview" or not safe:
            yield outcome
            return
        self.stack.variables |= unrecorded.ONE_SAVE
        self.marks.begin(self.operation, cluster_id(access.connect(self.plan)))
        try:
            yield outcome
        finally:
            self.marks.end(outcome["whole"] and self.operation != "refresh")

    def remove_orphans(
        self, found: Iterable[Manifest], result: Result | None = None
    ) -> dict[str, ObjectChange]:
        """Delete what the engine does not know. Raises StackError with what was done, the run's `result`
        included."""
        removed = {}
        for manifest, problem in orphans.remove(access.connect(self.plan), found, self.report):
            removed[f"orphan:{manifest}"] = removal(manifest, done=problem is None, error=problem)
        if result is not None:
            result.outcome.objects |= removed
        problems = [entry.error for entry in removed.values() if entry.error]
        if problems:
            raise StackError("\n".join(problems), result)
        return removed

    def do(self, operation: Callable[..., Any]) -> Result:
        """Run `operation` to its end. Raises StackError with what was done so far."""
        collector, failure, interrupted = self._attempt(operation)
        cut_off = not self._begun and any(_CUT_OFF in error for error in collector.outcome.errors)
        if cut_off and not interrupted:
            collector, failure, interrupted = self._attempt(operation)
        collector.outcome.objects |= self.withheld
        outputs = program.outputs(self.plan) if self.operation in ("up", "preview") else {}
        seconds = time.monotonic() - self._started
        result = Result(
            self.plan.environment,
            self.operation,
            collector.outcome,
            seconds,
            outputs,
            tuple(self.notes),
            findings=self.warnings,
        )
        if self.disk.message:
            collector.outcome.errors = [self.disk.message]
            raise StackError(self.disk.message, result)
        if self._program_error:
            raise StackError(str(self._program_error), result)
        if failure is None and not interrupted:
            return result
        if failure is not None and not isinstance(failure, automation_errors.CommandError):
            raise failure
        if isinstance(failure, automation_errors.ConcurrentUpdateError):
            raise locks.locked(self.backend, PROJECT, self.plan.environment) from None
        reported = [error for error in collector.outcome.errors if not (interrupted and error in _STOPPED)]
        written = [] if failure is None else [plain_error(failure)]
        disk = state_files.disk_problem([*reported, *written], self.backend)
        # What an interrupted engine writes itself is that it was interrupted.
        errors = [disk] if disk else reported or ([] if interrupted else written)
        collector.outcome.errors = errors
        again = f"interrupted; go on with: gpupool {self.operation} {self.plan.environment}"
        raise StackError("\n".join([*errors, again] if interrupted else errors), result)


def _unsaid(*_: Any, **__: Any) -> None:
    """Replaces the SDK's debug lines, which `gpupool` does not use."""
