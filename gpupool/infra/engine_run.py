"""The stage in which the engine runs: started, watched, interrupted, and what its events amount to."""

from __future__ import annotations

import contextlib
import functools
import gc
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi.automation import errors as automation_errors

from gpupool.findings import GpupoolError
from gpupool.infra import apply, locks, program, recovery, refusals, run_marks, state_files
from gpupool.infra.engine import PROJECT, interruptible
from gpupool.infra.preparation import Ready
from gpupool.infra.recovery import NO_LOSSES, Losses
from gpupool.infra.run_marks import cluster_id
from gpupool.infra.session import Request, plain_error
from gpupool.infra.stack_events import Collector, EngineOutcome, ObjectChange
from gpupool.infra.stack_result import Result, StackError
from gpupool.live.cluster import access

_GARBAGE = 50_000
"""Allocations between garbage collections (Python: 700). What thousands of resources hold is no garbage, and
collecting took a third of the time in which they are registered."""
_CUT_OFF = "Resource monitor has terminated"
"""What the SDK says where gRPC calls the engine unavailable (Pulumi 3.259). Rarely it does so of one that has
just started; while the program was not reached nothing was registered, and the run may be started again."""
_STOPPED = {"update canceled", "preview canceled"}
"""What the engine says of a run that was stopped in an orderly way, if anything (Pulumi 3.259,
deployment_executor.go)."""
_DELETIONS = 128
"""Objects that `destroy` deletes at once (Pulumi: 4 per processor); a namespace's end is 5 s of waiting."""


class _Program:
    """Pulumi's program of one run. It registers the bundle's objects, in a thread of the SDK's."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self.reached = False
        """Whether the engine called it: up to there nothing is registered, and nothing was changed."""
        self.error: GpupoolError | None = None

    def register(self) -> Awaitable[None]:
        self.reached = True
        # Each of the SDK's debug lines, four for an object, is a call to the engine that is waited for.
        pulumi.log.debug = _unsaid
        try:
            return apply.registered(program.register(self._request.plan, self._request.bundle))
        except GpupoolError as error:
            self.error = error
            raise pulumi.RunError(str(error)) from None


@dataclass(frozen=True)
class _Attempt:
    """What one run of the engine came to."""

    outcome: EngineOutcome
    reached: bool
    """Whether the program was called."""
    program_error: GpupoolError | None
    failure: BaseException | None
    """What the SDK raised."""
    interrupted: bool


def run_engine(
    ready: Ready, losses: Losses = NO_LOSSES, apart: Mapping[str, ObjectChange] | None = None
) -> Result:
    """Run the request's operation to its end. Raises StackError with what was done so far.

    `apart` is what is done, or would be, without the engine, by URN; a preview leaves `losses` out.
    """
    session, request = ready.session, ready.request
    attempt = _attempt(ready, losses)
    cut_off = not attempt.reached and any(_CUT_OFF in error for error in attempt.outcome.errors)
    if cut_off and not attempt.interrupted:
        attempt = _attempt(ready, losses)
    outcome, disk = attempt.outcome, session.disk.message
    if not (attempt.interrupted or attempt.program_error):
        refusals.explain(request, outcome, failed=attempt.failure is not None)
    outcome.objects |= apart or {}
    result = Result(
        request.environment,
        request.operation,
        outcome,
        time.monotonic() - session.started,
        program.outputs(request.plan) if request.applies else {},
        ready.notes,
        refused=losses.refused,
        findings=ready.warnings,
    )
    if disk:
        outcome.errors = [disk]
        raise StackError(disk, result)
    if attempt.program_error:
        raise StackError(str(attempt.program_error), result)
    if attempt.failure is not None or attempt.interrupted:
        _fail(ready, attempt, result)
    if outcome.errors:
        raise StackError("\n".join(outcome.errors), result)
    return result


def _fail(ready: Ready, attempt: _Attempt, result: Result) -> None:
    """Raise what became of a run that did not get to its end."""
    request, failure, outcome = ready.request, attempt.failure, attempt.outcome
    if failure is not None and not isinstance(failure, automation_errors.CommandError):
        raise failure
    if isinstance(failure, automation_errors.ConcurrentUpdateError):
        raise locks.locked(ready.session.backend, PROJECT, request.environment) from None
    # What was under way was cut off, which each provider says in its own words.
    expected = {*_STOPPED, *outcome.lines.values()} if attempt.interrupted else set()
    reported = [error for error in outcome.errors if error not in expected]
    written = [] if failure is None else [plain_error(failure)]
    disk = state_files.disk_problem([*reported, *written], ready.session.backend)
    # What an interrupted engine writes itself is that it was interrupted.
    outcome.errors = [disk] if disk else reported or ([] if attempt.interrupted else written)
    again = f"interrupted; continue with: gpupool {request.operation} {request.environment}"
    raise StackError("\n".join([*outcome.errors, *([again] if attempt.interrupted else [])]), result)


def _attempt(ready: Ready, losses: Losses) -> _Attempt:
    """Run the engine once."""
    session, request = ready.session, ready.request
    collector, run = Collector(request.report), _Program(request)
    gc.freeze()
    gc.set_threshold(_GARBAGE)

    def stopping(notice: str) -> None:
        collector.silent = True  # a step that was just begun would hide the notice
        request.report(notice)

    # A provider can't change what is gone (pulumi-kubernetes: Update reads the object first).
    unsure = bool(ready.marks.left) or (bool(ready.gone) and request.applies)
    again = {"refresh": True} if unsure and request.operation != "refresh" else {}
    with _marked(ready) as mark:
        call = _call(ready, losses)
        work = functools.partial(call, program=run.register, on_event=collector, **again)
        failure, interrupted = interruptible(work, session.command, stopping, session.disk.watch)
        mark["whole"] = failure is None and not interrupted and not collector.outcome.errors
    return _Attempt(collector.outcome, run.reached, run.error, failure, interrupted)


def _call(ready: Ready, losses: Losses) -> Callable[..., Any]:
    """The SDK's function for the operation, with what is peculiar to it."""
    stack = ready.session.stack
    match ready.request.operation:
        case "preview":  # the engine refuses to preview the deletion of what is protected
            return functools.partial(stack.preview, exclude=list(losses.urns) or None)
        case "up":
            return stack.up
        case "refresh":
            return stack.refresh
    hooks = recovery.has_hooks(ready.deployment)
    return functools.partial(stack.destroy, run_program=hooks, parallel=_DELETIONS)


@contextlib.contextmanager
def _marked(ready: Ready) -> Iterator[dict[str, bool]]:
    """Have the engine save the state once, at the end, where what a killed run did is found again."""
    mark, request, marks = {"whole": False}, ready.request, ready.marks
    chosen = request.plan.has_existing_nodes
    safe = marks.possible and run_marks.found_again(
        request.operation, request.bundle, ready.deployment, chosen
    )
    if request.operation == "preview" or not safe:
        yield mark
        return
    ready.session.stack.variables |= run_marks.ONE_SAVE
    marks.begin(request.operation, cluster_id(access.connect(request.plan)))
    try:
        yield mark
    finally:
        marks.end(mark["whole"] and request.operation != "refresh")


def _unsaid(*_: Any, **__: Any) -> None:
    """Replaces the SDK's debug lines, which `gpupool` does not use."""
