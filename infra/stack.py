"""preview, up, refresh and destroy of one environment: the engine's runs, with our own words for them.

Same project, program, stack and state as the plain Pulumi CLI. Everything that can be known to be wrong
is found before anything is sent: a wrong file, a lock, protected things that would go.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pulumi import automation
from pulumi.automation import errors as automation_errors

from generators import generate
from generators.manifest import Bundle
from gpupool.findings import GpupoolError
from gpupool.plan import Plan
from gpupool.resolve import read_plan
from infra import apply, program, readiness, recovery
from infra.engine import PROJECT, Command, EngineError, EngineStack, opened
from infra.kube_api import UnreachableError
from infra.kubeconfig import KubeconfigError
from infra.stack_events import Collector, ObjectChange, Outcome

Report = Callable[[str], None]
_UPSERT = "PULUMI_K8S_UPSERT_EXISTING_OBJECTS"


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
    outcome: Outcome
    seconds: float
    outputs: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    """What else was done or found: a stale lock removed, objects that are not ready yet."""

    @property
    def objects(self) -> list[ObjectChange]:
        """The objects that changed."""
        return self.outcome.changed

    def as_dict(self) -> dict[str, Any]:
        """The run as `--format json` promises it."""
        return {
            "environment": self.environment,
            "operation": self.operation,
            "changes": self.outcome.counts,
            "objects": [entry.as_dict() for entry in self.objects],
            "outputs": dict(self.outputs),
            "notes": [*self.notes, *self.outcome.warnings],
            "errors": self.outcome.errors,
            "seconds": round(self.seconds, 2),
        }


def preview(environment: str, report: Report = lambda _: None) -> Result:
    """What `up` would do, tried by the API server's dry run. Changes nothing. Raises GpupoolError."""
    plan, bundle = _read(environment)
    with _Run(plan, bundle, "preview", report) as run:
        return run.do(run.stack.preview)


def up(environment: str, allow_delete: Iterable[str] = (), report: Report = lambda _: None) -> Result:
    """Make the cluster what the file says.

    `allow_delete` names protected things (`Namespace/team-x`) that may go. Raises SpecError before
    anything is sent, ProtectedError, or StackError when objects could not be applied or do not work.
    """
    plan, bundle = _read(environment)
    kept = [apply.logical_name(manifest) for manifest in bundle]
    with _Run(plan, bundle, "up", report) as run:
        lost = recovery.losses(run.deployment, kept)
        recovery.refuse_losses(lost.keys() - set(allow_delete), plan.environment)
        for urn in lost.values():
            run.unprotect(urn)
        result = run.do(run.stack.up)
    return _with_readiness(plan, bundle, result)


def refresh(environment: str, report: Report = lambda _: None) -> Result:
    """Look what others have changed or deleted, and note it in the state, so that the next `up` mends it."""
    plan, bundle = _read(environment)
    with _Run(plan, bundle, "refresh", report) as run:
        return run.do(run.stack.refresh)


def destroy(environment: str, report: Report = lambda _: None) -> Result:
    """Delete everything the stack made, protected things included, in the order in which it is safe.

    The caller has asked for consent. Nodes that existed before get their labels and taints back.
    """
    plan, bundle = _read(environment)
    # Where the program runs for its hooks it must not protect anew what the consent covers.
    freed = tuple(dataclasses.replace(manifest, protect=False) for manifest in bundle)
    with _Run(plan, dataclasses.replace(bundle, manifests=freed), "destroy", report) as run:
        if recovery.protected(run.deployment):
            run.unprotect("--all")
        hooks = recovery.has_hooks(run.deployment)
        return run.do(lambda **options: run.stack.destroy(run_program=hooks, **options))


def _read(environment: str) -> tuple[Plan, Bundle]:
    plan = read_plan(environment)
    return plan, generate(plan)


def _with_readiness(plan: Plan, bundle: Bundle, result: Result) -> Result:
    """Add what does not work yet; what can't ever work by itself is an error."""
    # After a change controllers get a moment to judge it; after none their verdict is there already.
    wait = readiness.WAIT_SECONDS if result.objects else 0.0
    report = readiness.look(program.connect(plan), bundle, wait)
    whole = Result(
        result.environment,
        result.operation,
        result.outcome,
        result.seconds,
        result.outputs,
        (*result.notes, *report.waiting),
    )
    if report.broken:
        whole.outcome.errors.extend(report.broken)
        raise StackError("\n".join(report.broken), whole)
    return whole


class _Run:
    """One engine run on one stack, from locks and leftovers to its result."""

    def __init__(self, plan: Plan, bundle: Bundle, operation: str, report: Report) -> None:
        self._plan, self._operation, self._report = plan, operation, report
        self._notes: list[str] = []
        self._program_error: list[GpupoolError] = []
        self._started = time.monotonic()
        self._opened = opened(plan.environment, plan.cluster.platform, lambda: self._program(bundle), report)
        self.stack: EngineStack
        self.deployment: dict[str, Any] = {}

    def _program(self, bundle: Bundle) -> None:
        import pulumi

        try:
            program.register(self._plan, bundle)
        except GpupoolError as error:
            self._program_error.append(error)
            raise pulumi.RunError(str(error)) from None

    def __enter__(self) -> _Run:
        self.stack, self._command = self._opened.__enter__()
        try:
            self._prepare()
        except BaseException as error:
            self._opened.__exit__(type(error), error, error.__traceback__)
            raise
        return self

    def __exit__(self, *error: Any) -> None:
        self._opened.__exit__(*error)

    def _prepare(self) -> None:
        name, variables = self._plan.environment, self.stack.variables
        url = variables.get("PULUMI_BACKEND_URL") or os.environ.get("PULUMI_BACKEND_URL", "")
        if recovery.clear_locks(url, PROJECT, name):
            self._note("removed the lock of a run that was killed")
        if recovery.clear_sidecars(url, PROJECT, name):
            self._note("removed what a killed run had half written beside the state")
        self.deployment = self._export()
        if self._operation != "refresh":
            # An unreachable cluster is told by what comes next, in its own words.
            with contextlib.suppress(UnreachableError, KubeconfigError):
                recovery.require_same_cluster(self.deployment, program.connect(self._plan), name)
        left = recovery.pending(self.deployment)
        if left and self._operation != "preview":
            self._note(f"going on after an interrupted run: {', '.join(left)}")
            self.deployment = recovery.without_pending(self.deployment)
            self.stack.import_stack(automation.Deployment(version=3, deployment=self.deployment))
            # What the interrupted run made without noting it is ours: take it over.
            variables[_UPSERT] = "true"

    def _export(self) -> dict[str, Any]:
        try:
            found = self.stack.export_stack().deployment
        except automation_errors.CommandError as error:
            if "no stack named" not in str(error):
                raise EngineError(_plain(error)) from error
            self.stack.workspace.create_stack(self.stack.name)
            return {}
        return dict(found or {})

    def _note(self, text: str) -> None:
        self._notes.append(text)
        self._report(text)

    def unprotect(self, what: str) -> None:
        """Allow one URN, or `--all`, to be deleted."""
        args = ["state", "unprotect", what, "--yes", "--stack", self.stack.name]
        workspace = self.stack.workspace
        workspace.pulumi_command.run(args, workspace.work_dir, workspace.env_vars)

    def do(self, operation: Callable[..., Any]) -> Result:
        """Run `operation` to its end. Raises StackError with what was done so far."""
        collector = Collector(self._report)
        failure, interrupted = _interruptible(
            lambda: operation(on_event=collector), self._command, self._report
        )
        outputs = program.outputs(self._plan) if self._operation in ("up", "preview") else {}
        seconds = time.monotonic() - self._started
        result = Result(
            self._plan.environment, self._operation, collector.outcome, seconds, outputs, tuple(self._notes)
        )
        if self._program_error:
            raise StackError(str(self._program_error[0]), result)
        if failure is not None:
            if not isinstance(failure, automation_errors.CommandError):
                raise failure
            collector.outcome.errors = collector.outcome.errors or [_plain(failure)]
            raise StackError("\n".join(collector.outcome.errors), result)
        if interrupted:
            # The engine calls a run that was stopped in an orderly way a success.
            again = f"gpupool {self._operation} {self._plan.environment}"
            raise StackError(f"interrupted; what was under way is finished, go on with: {again}", result)
        return result


def _interruptible(
    work: Callable[[], Any], command: Command, report: Report
) -> tuple[BaseException | None, bool]:
    """Run `work` in a thread, passing Ctrl-C on to the engine: what it raised, and whether it was stopped."""
    failure: list[BaseException] = []
    interrupted = False

    def guarded() -> None:
        try:
            work()
        except BaseException as error:  # handed to the caller's thread
            failure.append(error)

    thread = threading.Thread(target=guarded, name="engine")
    thread.start()
    while thread.is_alive():
        try:
            thread.join(0.2)
        except KeyboardInterrupt:
            interrupted = True
            report("stopping after what is under way (Ctrl-C again to stop at once)")
            command.interrupt()
    return (failure[0] if failure else None), interrupted


def _plain(error: Exception) -> str:
    """What the engine wrote to stderr, without the SDK's frame around it."""
    text = str(error)
    _, _, stderr = text.partition("stderr:")
    lines = [line.strip() for line in (stderr or text).splitlines()]
    told = [line.removeprefix("error: ") for line in lines if line and not line.startswith("code:")]
    return "\n".join(told) or text


def to_json(result: Result) -> str:
    """The result as a JSON document."""
    return json.dumps(result.as_dict(), indent=2, ensure_ascii=False)
