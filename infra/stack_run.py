"""One run of the engine on one stack: what must be in order before it, and what it amounts to.

Which runs there are, and what is judged before them, is decided in `infra.stack`.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pulumi import automation
from pulumi.automation import errors as automation_errors

from generators.manifest import Bundle, Manifest
from gpupool.cluster.kube_api import KubeApi, UnreachableError
from gpupool.cluster.kubeconfig import KubeconfigError
from gpupool.findings import GpupoolError
from gpupool.plan.model import Plan
from gpupool.pulumi_plugins import env as pulumi_env
from infra import (
    apply,
    locks,
    orphans,
    program,
    recovery,
    sharing_changes,
    state_files,
    under_way,
    unrecorded,
)
from infra.disk_reserve import DiskReserve
from infra.engine import PROJECT, EngineError, EngineStack, Report, interruptible, opened
from infra.stack_events import Collector, ObjectChange, removal
from infra.stack_result import Result, StackError
from infra.unrecorded import cluster_id

if TYPE_CHECKING:
    from vapcheck import PolicyFinding

_GARBAGE = 50_000
"""Allocations between garbage collections (Python: 700). What thousands of resources hold is no garbage, and
collecting took a third of the time in which they are registered."""
Verdict = Callable[[], "tuple[PolicyFinding, ...]"]
"""Waits for what policy says: its warnings. Raises PolicyRefusalError."""
_UPSERT = "PULUMI_K8S_UPSERT_EXISTING_OBJECTS"
_CUT_OFF = "Resource monitor has terminated"
"""What the SDK says where gRPC calls the engine unavailable (Pulumi 3.259). Rarely it does so of one that has
just started; while the program was not reached nothing was registered, and the run may be started again."""

_STOPPED = {"update canceled", "preview canceled"}
"""What the engine says of a run that was stopped in an orderly way, if anything (Pulumi 3.259,
deployment_executor.go)."""


class Run:
    """One engine run on one stack, from locks and leftovers to its result."""

    def __init__(
        self,
        plan: Plan,
        bundle: Bundle,
        operation: str,
        report: Report,
        verdict: Verdict = tuple,
    ) -> None:
        self._plan, self._bundle, self._operation, self._report = plan, bundle, operation, report
        self._verdict = verdict
        self._warnings: tuple[PolicyFinding, ...] = ()
        self._notes: list[str] = []
        self._program_error: list[GpupoolError] = []
        self._begun = False
        """Whether the program was reached: up to there nothing is registered, and nothing was changed."""
        self._started = time.monotonic()
        self.stack: EngineStack
        self.deployment: dict[str, Any] = {}
        self._disk = DiskReserve("", PROJECT, plan.environment)
        self.withheld: dict[str, ObjectChange] = {}
        """By URN: what will be done without the engine."""
        self.orphans: tuple[Manifest, ...] = ()
        """Objects of this environment in the cluster that are not in the state and, except for `destroy`, not
        in the file."""

    def _program(self, bundle: Bundle) -> Awaitable[None]:
        import pulumi

        self._begun = True
        # Each of the SDK's debug lines, four for an object, is a call to the engine that is waited for.
        pulumi.log.debug = _unsaid
        try:
            return apply.registered(program.register(self._plan, bundle))
        except GpupoolError as error:
            self._program_error.append(error)
            raise pulumi.RunError(str(error)) from None

    def __enter__(self) -> Run:
        if self._operation != "preview" or self._plan.cluster.platform == "local":
            program.require_cluster(self._plan)
        if self._bundle.releases and self._by_stand_in():
            if self._operation == "up":
                raise StackError(f"{pulumi_env.NO_CHARTS}. Nothing was changed")
            if self._operation == "preview":
                self._note(f"`up` will refuse this: {pulumi_env.NO_CHARTS}")
        plan, bundle = self._plan, self._bundle
        with contextlib.ExitStack() as opening:
            engine = opened(
                plan.environment, plan.cluster.platform, lambda: self._program(bundle), self._report
            )
            self.stack, self._command = opening.enter_context(engine)
            opening.callback(lambda: self._disk.release())
            self._prepare()
            self._closing = opening.pop_all()
        return self

    def _by_stand_in(self) -> bool:
        """Whether gpupool's stand-in serves for the Kubernetes plugin, which knows no charts."""
        platform = self._plan.cluster.platform
        return pulumi_env.kubernetes_plugin() is None and pulumi_env.stand_in_allowed(platform)

    def __exit__(self, *error: Any) -> None:
        self._closing.__exit__(*error)

    def _prepare(self) -> None:
        name, variables, url = self._plan.environment, self.stack.variables, self._backend()
        if locks.clear_locks(url, PROJECT, name):
            self._note("removed the lock of a run that was killed")
        if state_files.clear_left(url, PROJECT, name):
            self._note("removed partial files that a killed run left beside the state")
        self._disk = DiskReserve("" if self._operation == "preview" else url, PROJECT, name)
        self._disk.take(len(self._bundle.manifests) if self._operation == "up" else 0)
        self._marks = unrecorded.Marks(url, PROJECT, name)
        known = self._export()
        # Nothing has been changed up to here, the leftovers of killed runs aside.
        self._warnings = self._verdict()
        self.deployment = self._created() if known is None else known
        if self._operation != "refresh":
            # The next step reports an unreachable cluster with its own message.
            with contextlib.suppress(UnreachableError, KubeconfigError):
                api = program.connect(self._plan)
                if not self._marks.left or not self._marks.same_cluster(cluster_id(api)):
                    recovery.require_same_cluster(self.deployment, api, name)
                variables |= self._mind_nodes(api)
        self._mind_leftovers(self._held())

    def _mind_leftovers(self, held: orphans.Held) -> None:
        """Find what is ours and not in the state, and have the engine take over what of it the file names."""
        changes = self._operation in ("up", "preview")
        destroys = self._operation == "destroy"
        self.orphans = (
            held.unrecorded(self.deployment) if destroys else held.beside(self._bundle, self.deployment)
        )
        left = recovery.pending(self.deployment)
        if self._marks.left and self._operation != "refresh":
            self._note("an earlier run was stopped before it saved its state: every object is read again")
        if left and self._operation != "preview":
            self._note(f"going on after an interrupted run: {', '.join(left)}")
            self.deployment = recovery.without_pending(self.deployment)
            with self._in_our_words():
                self.stack.import_stack(automation.Deployment(version=3, deployment=self.deployment))
        known = orphans.in_state(self.deployment)
        new = [m for m in self._bundle if not m.patch and orphans.key_of(m.body) not in known]
        ours = held.among(new)
        if changes and (left or ours):
            # What the interrupted run made without noting it is ours: take it over.
            orphans.require_none_foreign(program.connect(self._plan), [m for m in new if m not in ours])
            self.stack.variables[_UPSERT] = "true"

    def _held(self) -> orphans.Held:
        """What the cluster holds of the environment. Not asked where Argo CD or Flux delivers, which take
        away what they have made, nor by `refresh`, which reads only the state."""
        held = orphans.Held()
        if self._operation != "refresh" and not self._plan.delivery.gitops:
            with contextlib.suppress(UnreachableError, KubeconfigError):
                held = orphans.find(program.connect(self._plan), self._plan.environment)
        if held.hidden:
            kinds = ", ".join(held.hidden)
            self._note(f"not allowed to list {kinds}: what an earlier state has left of them is not found")
        return held

    def _mind_nodes(self, api: KubeApi) -> dict[str, str]:
        """Refuse to run during a repartition, and take over what one has made: the variables for that."""
        if self._operation not in ("up", "preview"):
            return {}
        if self._operation == "up":
            under_way.require_none(api, self._plan.environment)
        unseen = under_way.unseen(api, self._bundle, self.deployment)
        self._notes += sharing_changes.notes(api, self._plan, self._bundle, unseen)
        return {_UPSERT: "true"} if under_way.left_maps(api, self._bundle, self.deployment) else {}

    def _backend(self) -> str:
        return self.stack.variables.get("PULUMI_BACKEND_URL") or os.environ.get("PULUMI_BACKEND_URL", "")

    @contextlib.contextmanager
    def _in_our_words(self) -> Iterator[None]:
        """What the engine says about a command on the state, as errors of ours."""
        try:
            yield
        except automation_errors.ConcurrentUpdateError as error:
            raise locks.locked(self._backend(), PROJECT, self._plan.environment) from error
        except automation_errors.CommandError as error:
            text, url = _plain(error), self._backend()
            damaged = state_files.damaged(url, PROJECT, self._plan.environment, text)
            raise damaged or EngineError(state_files.disk_problem([text], url) or text) from error

    def _export(self) -> dict[str, Any] | None:
        """What the stack's state says; None where there is no such stack yet."""
        with self._in_our_words():
            try:
                return dict(self.stack.export_stack().deployment or {})
            except automation_errors.CommandError as error:
                if "no stack named" not in str(error):
                    raise
            return None

    def _created(self) -> dict[str, Any]:
        with self._in_our_words(), contextlib.suppress(automation_errors.StackAlreadyExistsError):
            self.stack.workspace.create_stack(self.stack.name)  # unless another run just did
        return {}

    def _note(self, text: str) -> None:
        self._notes.append(text)
        self._report(text)

    def losses(self, allowed: Iterable[str]) -> tuple[list[str], str | None]:
        """URNs of the protected things that the engine would delete, and, where not all that would go is
        `allowed`, how to consent.

        Raises UsageError for a name in `allowed` that does not go.
        """
        kept, named = [apply.logical_name(manifest) for manifest in self._bundle], set(allowed)
        lost, beside = recovery.losses(self.deployment, kept), orphans.protected(self.orphans)
        recovery.require_going(named - beside, self.deployment, kept)
        return [*lost.values()], recovery.consent((lost.keys() | beside) - named, self._plan.environment)

    def unprotect(self, what: str) -> None:
        """Allow one URN, or `--all`, to be deleted."""
        args = ["state", "unprotect", what, "--yes", "--stack", self.stack.name]
        workspace = self.stack.workspace
        with self._in_our_words():
            workspace.pulumi_command.run(args, workspace.work_dir, workspace.env_vars)

    def _attempt(self, operation: Callable[..., Any]) -> tuple[Collector, BaseException | None, bool]:
        """What one run of the engine reports, what it raised, and whether it was interrupted."""
        collector = Collector(self._report)
        gc.freeze()
        gc.set_threshold(_GARBAGE)

        def stopping(notice: str) -> None:
            collector.silent = True  # a step that was just begun would hide the notice
            self._report(notice)

        again = {"refresh": True} if self._marks.left and self._operation != "refresh" else {}
        with self._marked() as mark:
            work = functools.partial(operation, on_event=collector, **again)
            failure, interrupted = interruptible(work, self._command, stopping, self._disk.watch)
            mark["whole"] = failure is None and not interrupted and not collector.outcome.errors
        return collector, failure, interrupted

    @contextlib.contextmanager
    def _marked(self) -> Iterator[dict[str, bool]]:
        """Have the engine save the state once, at the end, where what a killed run did is found again."""
        outcome = {"whole": False}
        chosen = self._plan.cluster.platform == "static"
        safe = self._marks.possible and unrecorded.found_again(
            self._operation, self._bundle, self.deployment, chosen
        )
        if self._operation == "preview" or not safe:
            yield outcome
            return
        self.stack.variables |= unrecorded.ONE_SAVE
        self._marks.begin(self._operation, cluster_id(program.connect(self._plan)))
        try:
            yield outcome
        finally:
            self._marks.end(outcome["whole"] and self._operation != "refresh")

    def remove_orphans(
        self, found: Iterable[Manifest], result: Result | None = None
    ) -> dict[str, ObjectChange]:
        """Delete what the engine does not know. Raises StackError with what was done, the run's `result`
        included."""
        removed = {}
        for manifest, problem in orphans.remove(program.connect(self._plan), found, self._report):
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
        outputs = program.outputs(self._plan) if self._operation in ("up", "preview") else {}
        seconds = time.monotonic() - self._started
        result = Result(
            self._plan.environment,
            self._operation,
            collector.outcome,
            seconds,
            outputs,
            tuple(self._notes),
            findings=self._warnings,
        )
        if self._disk.message:
            collector.outcome.errors = [self._disk.message]
            raise StackError(self._disk.message, result)
        if self._program_error:
            raise StackError(str(self._program_error[0]), result)
        if failure is None and not interrupted:
            return result
        if failure is not None and not isinstance(failure, automation_errors.CommandError):
            raise failure
        if isinstance(failure, automation_errors.ConcurrentUpdateError):
            raise locks.locked(self._backend(), PROJECT, self._plan.environment) from None
        reported = [error for error in collector.outcome.errors if not (interrupted and error in _STOPPED)]
        written = [] if failure is None else [_plain(failure)]
        disk = state_files.disk_problem([*reported, *written], self._backend())
        # What an interrupted engine writes itself is that it was interrupted.
        errors = [disk] if disk else reported or ([] if interrupted else written)
        collector.outcome.errors = errors
        again = f"interrupted; go on with: gpupool {self._operation} {self._plan.environment}"
        raise StackError("\n".join([*errors, again] if interrupted else errors), result)


def _unsaid(*_: Any, **__: Any) -> None:
    """Replaces the SDK's debug lines, which `gpupool` does not use."""


def _plain(error: Exception) -> str:
    """What the engine wrote to stderr, without the SDK's frame around it."""
    text = str(error)
    _, _, stderr = text.partition("stderr:")
    lines = [line.strip() for line in (stderr or text).splitlines()]
    reported = [line.removeprefix("error: ") for line in lines if line and not line.startswith("code:")]
    return "\n".join(reported) or text
