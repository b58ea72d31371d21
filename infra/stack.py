"""preview, up, refresh and destroy of one environment: the engine's runs, with our own words for them.

Same project, program, stack and state as the plain Pulumi CLI. Everything that can be known to be wrong
is found before anything is sent: a wrong file, what policy denies, a lock, protected things that would go.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pulumi import automation
from pulumi.automation import errors as automation_errors

from generators import generate
from generators.manifest import Bundle
from gpupool.findings import GpupoolError
from gpupool.plan import Plan
from gpupool.resolve import read_plan
from infra import apply, delivered, policy_gate, program, readiness, recovery, sharing_changes, under_way
from infra.engine import PROJECT, EngineError, EngineStack, interruptible, opened
from infra.kube_api import KubeApi, UnreachableError
from infra.kubeconfig import KubeconfigError
from infra.recovery import ProtectedError
from infra.stack_events import Collector, ObjectChange, deletion
from infra.stack_result import Result, StackError

if TYPE_CHECKING:
    from policies.engine.outcome import PolicyFinding

Report = Callable[[str], None]
Verdict = Callable[[], "tuple[PolicyFinding, ...]"]
"""Waits for what policy says: its warnings. Raises PolicyRefusalError."""
_WITHOUT_FILE = (
    "destroy reads the file to know the cluster, and which nodes to give back: mend it, or fetch it back "
    "from version control. Where it is lost, everything but the labels of existing nodes goes with plain "
    'Pulumi: eval "$(gpupool local env)" (of a local environment), pulumi state unprotect --all -s NAME, '
    "pulumi destroy -s NAME"
)
_UPSERT = "PULUMI_K8S_UPSERT_EXISTING_OBJECTS"
_DELETIONS = 32
"""Objects that `destroy` deletes at once (Pulumi: 4 per processor); a namespace's end is 5 s of waiting."""


def preview(environment: str, report: Report = lambda _: None, allow_delete: Iterable[str] = ()) -> Result:
    """What `up` would do, tried by the API server's dry run. Changes nothing.

    Protected things that would go are among the deletions; for those that `allow_delete` does not name
    the result says how to consent. Raises GpupoolError: PolicyRefusalError before anything is tried,
    UsageError for a name that would not be deleted.
    """
    plan, bundle = _read(environment)
    with _Run(plan, bundle, "preview", report, _verdict(environment, plan, bundle)) as run:
        lost = run.losses(allow_delete)
        rows = {row["urn"]: row for row in run.deployment.get("resources") or ()}
        # The engine refuses to preview these, so they are kept from it and told by us.
        run.withheld = {urn: deletion(rows[urn]) for urn in lost.values()}
        exclude = list(lost.values()) or None
        result = run.do(lambda **options: run.stack.preview(exclude=exclude, **options))
    refused = recovery.consent(lost.keys() - set(allow_delete), plan.environment)
    return dataclasses.replace(result, refused=refused)


def up(
    environment: str,
    allow_delete: Iterable[str] = (),
    report: Report = lambda _: None,
    despite_gitops: bool = False,
) -> Result:
    """Make the cluster what the file says.

    `allow_delete` names protected things (`Namespace/team-x`) that may go; `despite_gitops` applies what
    Argo CD or Flux delivers. Raises SpecError, UsageError, DeliveredError or PolicyRefusalError before
    anything is sent, ProtectedError, or StackError when objects could not be applied or do not work.
    """
    plan, bundle = _read(environment)
    delivered.require_ours(plan, despite_gitops)
    with _Run(plan, bundle, "up", report, _verdict(environment, plan, bundle)) as run:
        lost = run.losses(allow_delete)
        refused = recovery.consent(lost.keys() - set(allow_delete), plan.environment)
        if refused:
            raise ProtectedError(refused)
        for urn in lost.values():
            run.unprotect(urn)
        result = run.do(run.stack.up)
    left = under_way.clear_left(program.connect(plan), bundle)
    if left:
        told = f"removed what a repartition had left: ConfigMap {', '.join(left)}"
        result = dataclasses.replace(result, notes=(*result.notes, told))
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
    try:
        plan, bundle = _read(environment)
    except GpupoolError as error:
        raise StackError(f"{error}\n{_WITHOUT_FILE}") from error
    # Where the program runs for its hooks it must not protect anew what the consent covers.
    freed = tuple(dataclasses.replace(manifest, protect=False) for manifest in bundle)
    with _Run(plan, dataclasses.replace(bundle, manifests=freed), "destroy", report) as run:
        if recovery.protected(run.deployment):
            run.unprotect("--all")
        hooks = recovery.has_hooks(run.deployment)
        destroy, at_once = run.stack.destroy, _DELETIONS
        return run.do(lambda **options: destroy(run_program=hooks, parallel=at_once, **options))


def _read(environment: str) -> tuple[Plan, Bundle]:
    plan = read_plan(environment)
    return plan, generate(plan)


def _verdict(environment: str, plan: Plan, bundle: Bundle) -> Verdict:
    """Begin to judge, and return what waits for the end of it: what policy warns of, or PolicyRefusalError.

    Judging takes as long as the engine needs to start and to read the state, so the two go side by side.
    """
    thread = ThreadPoolExecutor(1, "policy")
    judged = thread.submit(policy_gate.judge, plan, datetime.now(UTC).date(), bundle=bundle)
    thread.shutdown(wait=False)

    def wait() -> tuple[PolicyFinding, ...]:
        report = judged.result()
        policy_gate.require(environment, report)
        return policy_gate.shown(report)

    return wait


def _with_readiness(plan: Plan, bundle: Bundle, result: Result) -> Result:
    """Add what does not work yet; what can't ever work by itself is an error."""
    # After a change controllers get a moment to judge it; after none their verdict is there already.
    wait = readiness.WAIT_SECONDS if result.objects else 0.0
    report = readiness.look(program.connect(plan), bundle, wait)
    whole = dataclasses.replace(result, notes=(*result.notes, *report.waiting))
    if report.broken:
        whole.outcome.errors.extend(report.broken)
        raise StackError("\n".join(report.broken), whole)
    return whole


class _Run:
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
        self._started = time.monotonic()
        self._opened = opened(plan.environment, plan.cluster.platform, lambda: self._program(bundle), report)
        self.stack: EngineStack
        self.deployment: dict[str, Any] = {}
        self.withheld: dict[str, ObjectChange] = {}
        """By URN: what will be done and the engine must not be told."""

    def _program(self, bundle: Bundle) -> None:
        import pulumi

        try:
            program.register(self._plan, bundle)
        except GpupoolError as error:
            self._program_error.append(error)
            raise pulumi.RunError(str(error)) from None

    def __enter__(self) -> _Run:
        if self._operation != "preview" or self._plan.cluster.platform == "local":
            program.require_cluster(self._plan)
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
        name, variables, url = self._plan.environment, self.stack.variables, self._backend()
        if recovery.clear_locks(url, PROJECT, name):
            self._note("removed the lock of a run that was killed")
        if recovery.clear_sidecars(url, PROJECT, name):
            self._note("removed what a killed run had half written beside the state")
        known = self._export()
        # Nothing has been changed up to here, the leftovers of killed runs aside.
        self._warnings = self._verdict()
        self.deployment = self._created() if known is None else known
        if self._operation != "refresh":
            # An unreachable cluster is told by what comes next, in its own words.
            with contextlib.suppress(UnreachableError, KubeconfigError):
                recovery.require_same_cluster(self.deployment, program.connect(self._plan), name)
                variables |= self._mind_nodes(program.connect(self._plan))
        left = recovery.pending(self.deployment)
        if left and self._operation != "preview":
            self._note(f"going on after an interrupted run: {', '.join(left)}")
            self.deployment = recovery.without_pending(self.deployment)
            with self._in_our_words():
                self.stack.import_stack(automation.Deployment(version=3, deployment=self.deployment))
            # What the interrupted run made without noting it is ours: take it over.
            variables[_UPSERT] = "true"

    def _mind_nodes(self, api: KubeApi) -> dict[str, str]:
        """Keep out of a repartition's way, and take over what one has made: the variables for that."""
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
            raise recovery.locked(self._backend(), PROJECT, self._plan.environment) from error
        except automation_errors.CommandError as error:
            raise EngineError(_plain(error)) from error

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

    def losses(self, allowed: Iterable[str]) -> dict[str, str]:
        """Name -> URN of the protected things that the run would delete.

        Raises UsageError for a name in `allowed` that does not go.
        """
        kept = [apply.logical_name(manifest) for manifest in self._bundle]
        lost = recovery.losses(self.deployment, kept)
        recovery.require_going(allowed, self.deployment, kept)
        return lost

    def unprotect(self, what: str) -> None:
        """Allow one URN, or `--all`, to be deleted."""
        args = ["state", "unprotect", what, "--yes", "--stack", self.stack.name]
        workspace = self.stack.workspace
        with self._in_our_words():
            workspace.pulumi_command.run(args, workspace.work_dir, workspace.env_vars)

    def do(self, operation: Callable[..., Any]) -> Result:
        """Run `operation` to its end. Raises StackError with what was done so far."""
        collector = Collector(self._report)
        failure, interrupted = interruptible(
            lambda: operation(on_event=collector), self._command, self._report
        )
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
        if self._program_error:
            raise StackError(str(self._program_error[0]), result)
        if interrupted and not collector.outcome.errors:
            # The engine calls a run that was stopped in an orderly way a success.
            again = f"gpupool {self._operation} {self._plan.environment}"
            raise StackError(f"interrupted; what was under way is finished, go on with: {again}", result)
        if failure is not None:
            if not isinstance(failure, automation_errors.CommandError):
                raise failure
            if isinstance(failure, automation_errors.ConcurrentUpdateError):
                raise recovery.locked(self._backend(), PROJECT, self._plan.environment) from None
            collector.outcome.errors = collector.outcome.errors or [_plain(failure)]
            raise StackError("\n".join(collector.outcome.errors), result)
        return result


def _plain(error: Exception) -> str:
    """What the engine wrote to stderr, without the SDK's frame around it."""
    text = str(error)
    _, _, stderr = text.partition("stderr:")
    lines = [line.strip() for line in (stderr or text).splitlines()]
    told = [line.removeprefix("error: ") for line in lines if line and not line.startswith("code:")]
    return "\n".join(told) or text
