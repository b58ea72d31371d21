"""preview, up, refresh and destroy of one environment, from its file: the stages of each, in order.

A stage takes the values of those before it and returns its own: Desired -> Request -> Ready -> Losses ->
Result. Same project, program, stack and state as the plain Pulumi CLI. Everything that can be known to be
wrong is found before anything is sent: a wrong file, what policy denies, a lock, protected things that would
go.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from gpupool.environment.plan.model import Plan
from gpupool.environment.plan.resolve import read_plan
from gpupool.findings import GpupoolError
from gpupool.generators import generate
from gpupool.generators.manifest import Bundle, Manifest
from gpupool.infra import gitops_refusal, readiness, recovery, unseen_changes
from gpupool.infra.engine import Report
from gpupool.infra.engine_run import run_engine
from gpupool.infra.preparation import Ready, prepared
from gpupool.infra.recovery import Losses, ProtectedError
from gpupool.infra.session import Request
from gpupool.infra.stack_events import ObjectChange, deletion, removal
from gpupool.infra.stack_result import Result, StackError
from gpupool.live.cluster import access
from gpupool.live.objects import orphans, repartition_mark, resource_values
from gpupool.policy import gate as policy_gate

if TYPE_CHECKING:
    from gpupool.findings import Finding

_WITHOUT_FILE = (
    "destroy needs the file for the cluster and the nodes to release: fix it, or restore it from version "
    "control. If it is lost, plain Pulumi deletes everything except labels of existing nodes: "
    'eval "$(gpupool local env)" (of a local environment), pulumi state unprotect --all -s NAME, '
    "pulumi destroy -s NAME"
)
_MEANWHILE = "{0} has changed meanwhile; the previous version was applied; continue with: gpupool up {0}"


@dataclass(frozen=True)
class Desired:
    """What a file says, as it was read once: what is previewed, consented to and applied."""

    environment: str
    """The environment's name, or the path of its file."""
    plan: Plan
    bundle: Bundle

    @cached_property
    def _judgement(self) -> Future[tuple[Finding, ...]]:
        """Begun at the first use, once for preview and up: judging takes as long as the engine needs to start
        and to read the state, so the two go side by side."""
        thread = ThreadPoolExecutor(1, "policy")
        judgement = thread.submit(policy_gate.passed, self.environment, self.plan, self.bundle)
        thread.shutdown(wait=False)
        return judgement

    def request(self, operation: str, report: Report) -> Request:
        """What to ask of the engine."""
        return Request(operation, self.plan, self.bundle, report)


def read(environment: str) -> Desired:
    """The file as it is now. Raises SpecError, UsageError."""
    plan = read_plan(environment)
    return Desired(environment, plan, generate(plan))


def preview(desired: Desired, report: Report = lambda _: None, allow_delete: Iterable[str] = ()) -> Result:
    """What `up` would do, tried by the API server's dry run. Changes nothing.

    Protected things that would go are among the deletions; for those that `allow_delete` does not name
    the result says how to consent. Raises GpupoolError: PolicyRefusalError before anything is tried,
    UsageError for a name that would not be deleted.
    """
    with prepared(desired.request("preview", report), desired._judgement.result) as ready:
        losses = _losses(ready, allow_delete)
        if summary := orphans.summary(ready.orphans):
            ready = ready.noted(summary)
        return run_engine(ready, losses, _would_go(ready, losses))


def up(
    desired: Desired,
    allow_delete: Iterable[str] = (),
    report: Report = lambda _: None,
    despite_gitops: bool = False,
) -> Result:
    """Make the cluster what the file said when it was read.

    `allow_delete` names protected things (`Namespace/team-x`) that may go; `despite_gitops` applies what
    Argo CD or Flux delivers. Raises UsageError, DeliveredError or PolicyRefusalError before anything is sent,
    ProtectedError, or StackError when objects could not be applied or do not work.
    """
    gitops_refusal.require_ours(desired.plan, despite_gitops)
    with prepared(desired.request("up", report), desired._judgement.result) as ready:
        _unprotect(ready, _losses(ready, allow_delete))
        result = run_engine(ready)
        unseen_changes.finish(ready.request, ready.deployment)
        # The engine has made what takes their place, and the namespaces that are to stay.
        result = _without_orphans(ready, ready.orphans, result)
        result = _without_repartition(ready.request, result)
        result = _working(ready.request, result)
    return result.noted(_MEANWHILE.format(desired.environment)) if _changed(desired) else result


def refresh(desired: Desired, report: Report = lambda _: None) -> Result:
    """Find what others have changed or deleted, and record it in the state, so that the next `up` restores
    it."""
    with prepared(desired.request("refresh", report)) as ready:
        return unseen_changes.record(ready.session, run_engine(ready))


def destroy(environment: str, report: Report = lambda _: None, despite_gitops: bool = False) -> Result:
    """Delete everything the stack made, protected things included, in the order in which it is safe.

    The caller has asked for consent. Nodes that existed before get their labels and taints back. Raises
    DeliveredError, unless `despite_gitops`, where Argo CD or Flux would make it all again.
    """
    try:
        desired = read(environment)
    except GpupoolError as error:
        raise StackError(f"{error}\n{_WITHOUT_FILE}") from error
    gitops_refusal.require_ours(desired.plan, despite_gitops, "destroy")
    # Where the program runs for its hooks it must not protect again what the consent covers.
    freed = tuple(dataclasses.replace(manifest, protect=False) for manifest in desired.bundle)
    desired = dataclasses.replace(desired, bundle=dataclasses.replace(desired.bundle, manifests=freed))
    with prepared(desired.request("destroy", report)) as ready:
        if recovery.protected(ready.deployment):
            ready.session.unprotect("--all")
        # Those that would have what the engine deletes made again, or could not go after it.
        first = orphans.before_the_engine(ready.orphans)
        removed = _removed(ready.request, first)
        _require_removed(removed)
        result = run_engine(ready, apart=removed)
        return _without_orphans(ready, [one for one in ready.orphans if one not in first], result)


def _changed(desired: Desired) -> bool:
    """Whether the file says something else by now."""
    try:
        return read_plan(desired.environment) != desired.plan
    except GpupoolError:
        return True


def _losses(ready: Ready, allow_delete: Iterable[str]) -> Losses:
    """Protected things that the engine would delete, and, where not all that would go is allowed, how to
    consent. Raises UsageError for a name in `allow_delete` that does not go."""
    kept = [resource_values.logical_name(manifest) for manifest in ready.request.bundle]
    lost, beside = recovery.losses(ready.deployment, kept), orphans.protected(ready.orphans)
    allowed = frozenset(allow_delete)
    recovery.require_going(allowed - beside, ready.deployment, kept)
    refused = recovery.consent((lost.keys() | beside) - allowed, ready.request.environment)
    return Losses(tuple(lost.values()), refused)


def _would_go(ready: Ready, losses: Losses) -> dict[str, ObjectChange]:
    """What the engine is not asked about, as part of the preview."""
    rows = {row["urn"]: row for row in ready.deployment.get("resources") or ()}
    gone = {urn: deletion(rows[urn]) for urn in losses.urns}
    return gone | {f"orphan:{manifest}": removal(manifest) for manifest in ready.orphans}


def _unprotect(ready: Ready, losses: Losses) -> None:
    """Nothing protected goes that may not, and what may is no longer protected. Raises ProtectedError."""
    if losses.refused:
        raise ProtectedError(losses.refused)
    for urn in losses.urns:
        ready.session.unprotect(urn)


def _without_orphans(ready: Ready, manifests: Iterable[Manifest], result: Result) -> Result:
    """Remove what the engine does not know. Raises StackError with what was done."""
    removed = _removed(ready.request, manifests)
    result = result.with_changes(removed)
    _require_removed(removed, result)
    return result


def _removed(request: Request, manifests: Iterable[Manifest]) -> dict[str, ObjectChange]:
    return {
        f"orphan:{manifest}": removal(manifest, done=problem is None, error=problem)
        for manifest, problem in orphans.remove(access.connect(request.plan), manifests, request.report)
    }


def _require_removed(removed: dict[str, ObjectChange], result: Result | None = None) -> None:
    """Raise StackError where one of them is still there."""
    problems = [change.error for change in removed.values() if change.error]
    if problems:
        raise StackError("\n".join(problems), result)


def _without_repartition(request: Request, result: Result) -> Result:
    """Delete what a repartition has left, now that the plain configurations are in place."""
    left = repartition_mark.clear_left(access.connect(request.plan), request.bundle)
    if not left:
        return result
    return result.noted(f"removed leftovers of a repartition: ConfigMap {', '.join(left)}")


def _working(request: Request, result: Result) -> Result:
    """Add what does not work yet. Raises StackError for what can't ever work by itself."""
    # After a change controllers get a moment to judge it; after none their verdict is there already.
    wait = readiness.WAIT_SECONDS if result.objects else 0.0
    request.report("waiting for applied objects")
    unready = readiness.inspect(access.connect(request.plan), request.bundle, wait)
    result = result.noted(*unready.waiting).with_changes({}, unready.broken)
    if unready.broken:
        raise StackError("\n".join(unready.broken), result)
    return result
