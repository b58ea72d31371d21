"""The step in which the engine runs: started, watched, interrupted, and what its events amount to."""

from __future__ import annotations

import contextlib
import functools
import gc
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

from pulumi.automation import errors as automation_errors

from gpupool.findings import GpupoolError
from gpupool.infra import access, apply, locks, program, recovery, refusals, run_marks, state_files
from gpupool.infra.engine import PROJECT, interruptible
from gpupool.infra.run_context import RunContext, plain_error
from gpupool.infra.run_marks import cluster_id
from gpupool.infra.stack_events import Collector
from gpupool.infra.stack_result import Result, StackError

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


def _preview(run: RunContext) -> Callable[..., Any]:
    # The engine refuses to preview the deletion of what is protected.
    return functools.partial(run.stack.preview, exclude=run.lost or None)


def _destroy(run: RunContext) -> Callable[..., Any]:
    hooks = recovery.has_hooks(run.deployment)
    return functools.partial(run.stack.destroy, run_program=hooks, parallel=_DELETIONS)


_CALLS: Mapping[str, Callable[[RunContext], Callable[..., Any]]] = {
    "preview": _preview,
    "up": lambda run: run.stack.up,
    "refresh": lambda run: run.stack.refresh,
    "destroy": _destroy,
}


def registered(run: RunContext) -> Awaitable[None]:
    """Pulumi's program: it registers the bundle's objects."""
    import pulumi

    run.begun = True
    # Each of the SDK's debug lines, four for an object, is a call to the engine that is waited for.
    pulumi.log.debug = _unsaid
    try:
        return apply.registered(program.register(run.plan, run.bundle))
    except GpupoolError as error:
        run.program_error = error
        raise pulumi.RunError(str(error)) from None


def run_engine(run: RunContext) -> None:
    """Run the operation to its end, for `run.result`. Raises StackError with what was done so far."""
    call = _CALLS[run.operation](run)
    collector, failure, interrupted = _attempt(run, call)
    cut_off = not run.begun and any(_CUT_OFF in error for error in collector.outcome.errors)
    if cut_off and not interrupted:
        collector, failure, interrupted = _attempt(run, call)
    if not (interrupted or run.program_error):
        refusals.explain(run, collector.outcome, failed=failure is not None)
    collector.outcome.objects |= run.apart
    run.result = Result(
        run.plan.environment,
        run.operation,
        collector.outcome,
        time.monotonic() - run.started,
        program.outputs(run.plan) if run.operation in ("up", "preview") else {},
        tuple(run.notes),
        refused=run.refused,
        findings=run.warnings,
    )
    if run.disk.message:
        collector.outcome.errors = [run.disk.message]
        raise StackError(run.disk.message, run.result)
    if run.program_error:
        raise StackError(str(run.program_error), run.result)
    if failure is not None or interrupted:
        _fail(run, failure, interrupted)
    if collector.outcome.errors:
        raise StackError("\n".join(collector.outcome.errors), run.result)


def _fail(run: RunContext, failure: BaseException | None, interrupted: bool) -> None:
    """Raise what became of a run that did not get to its end."""
    if failure is not None and not isinstance(failure, automation_errors.CommandError):
        raise failure
    if isinstance(failure, automation_errors.ConcurrentUpdateError):
        raise locks.locked(run.backend, PROJECT, run.stack_name) from None
    outcome = run.result.outcome
    # What was under way was cut off, which each provider says in its own words.
    expected = {*_STOPPED, *outcome.lines.values()} if interrupted else set()
    reported = [error for error in outcome.errors if error not in expected]
    written = [] if failure is None else [plain_error(failure)]
    disk = state_files.disk_problem([*reported, *written], run.backend)
    # What an interrupted engine writes itself is that it was interrupted.
    outcome.errors = [disk] if disk else reported or ([] if interrupted else written)
    again = [f"interrupted; continue with: gpupool {run.operation} {run.stack_name}"] if interrupted else []
    raise StackError("\n".join([*outcome.errors, *again]), run.result)


def _attempt(run: RunContext, call: Callable[..., Any]) -> tuple[Collector, BaseException | None, bool]:
    """What one run of the engine reports, what it raised, and whether it was interrupted."""
    collector = Collector(run.report)
    gc.freeze()
    gc.set_threshold(_GARBAGE)

    def stopping(notice: str) -> None:
        collector.silent = True  # a step that was just begun would hide the notice
        run.report(notice)

    # A provider can't change what is gone (pulumi-kubernetes: Update reads the object first).
    unsure = bool(run.marks.left) or (bool(run.gone) and run.operation in ("up", "preview"))
    again = {"refresh": True} if unsure and run.operation != "refresh" else {}
    with _marked(run) as mark:
        work = functools.partial(call, on_event=collector, **again)
        failure, interrupted = interruptible(work, run.command, stopping, run.disk.watch)
        mark["whole"] = failure is None and not interrupted and not collector.outcome.errors
    return collector, failure, interrupted


@contextlib.contextmanager
def _marked(run: RunContext) -> Iterator[dict[str, bool]]:
    """Have the engine save the state once, at the end, where what a killed run did is found again."""
    mark = {"whole": False}
    chosen = run.plan.existing
    safe = run.marks.possible and run_marks.found_again(run.operation, run.bundle, run.deployment, chosen)
    if run.operation == "preview" or not safe:
        yield mark
        return
    run.stack.variables |= run_marks.ONE_SAVE
    run.marks.begin(run.operation, cluster_id(access.connect(run.plan)))
    try:
        yield mark
    finally:
        run.marks.end(mark["whole"] and run.operation != "refresh")


def _unsaid(*_: Any, **__: Any) -> None:
    """Replaces the SDK's debug lines, which `gpupool` does not use."""
