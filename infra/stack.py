"""preview, up, refresh and destroy of one environment: the engine's runs, with our own words for them.

Same project, program, stack and state as the plain Pulumi CLI. Everything that can be known to be wrong
is found before anything is sent: a wrong file, what policy denies, a lock, protected things that would go.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from gpupool.findings import GpupoolError
from gpupool.generators import generate
from gpupool.generators.manifest import Bundle
from gpupool.infra import access, gitops_refusal, orphans, policy_gate, readiness, recovery, under_way
from gpupool.infra.engine import Report
from gpupool.infra.recovery import ProtectedError
from gpupool.infra.run_context import Verdict
from gpupool.infra.stack_events import deletion, removal
from gpupool.infra.stack_result import Result, StackError
from gpupool.infra.stack_run import Run
from gpupool.plan.model import Plan
from gpupool.plan.resolve import read_plan

if TYPE_CHECKING:
    from vapcheck import PolicyFinding

_WITHOUT_FILE = (
    "destroy reads the file to know the cluster, and which nodes to give back: fix it, or restore it "
    "from version control. Where it is lost, everything but the labels of existing nodes goes with plain "
    'Pulumi: eval "$(gpupool local env)" (of a local environment), pulumi state unprotect --all -s NAME, '
    "pulumi destroy -s NAME"
)
_MEANWHILE = "{0} has changed meanwhile; what was read before is what was applied; go on with: gpupool up {0}"
_DELETIONS = 128
"""Objects that `destroy` deletes at once (Pulumi: 4 per processor); a namespace's end is 5 s of waiting."""


@dataclass(frozen=True)
class Desired:
    """What a file says, as it was read once: what is previewed, consented to and applied."""

    environment: str
    """The environment's name, or the path of its file."""
    plan: Plan
    bundle: Bundle


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
    with Run(desired.plan, desired.bundle, "preview", report, _verdict(desired)) as run:
        lost, refused = run.losses(allow_delete)
        rows = {row["urn"]: row for row in run.deployment.get("resources") or ()}
        # The engine refuses to preview these, so they are withheld from it and reported here.
        run.withheld = {urn: deletion(rows[urn]) for urn in lost}
        run.withheld |= {f"orphan:{manifest}": removal(manifest) for manifest in run.orphans}
        result = run.do(lambda **options: run.stack.preview(exclude=lost or None, **options))
    notes = (*result.notes, *filter(None, [orphans.summary(run.orphans)]))
    return dataclasses.replace(result, refused=refused, notes=notes)


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
    plan, bundle = desired.plan, desired.bundle
    gitops_refusal.require_ours(plan, despite_gitops)
    with Run(plan, bundle, "up", report, _verdict(desired)) as run:
        lost, refused = run.losses(allow_delete)
        if refused:
            raise ProtectedError(refused)
        for urn in lost:
            run.unprotect(urn)
        result = run.do(run.stack.up)
        run.remove_orphans(run.orphans, result)
    left = under_way.clear_left(access.connect(plan), bundle)
    if left:
        notice = f"removed what a repartition had left: ConfigMap {', '.join(left)}"
        result = dataclasses.replace(result, notes=(*result.notes, notice))
    if _changed(desired):
        result = dataclasses.replace(result, notes=(*result.notes, _MEANWHILE.format(desired.environment)))
    return _with_readiness(plan, bundle, result)


def refresh(desired: Desired, report: Report = lambda _: None) -> Result:
    """Find what others have changed or deleted, and record it in the state, so that the next `up` restores
    it."""
    with Run(desired.plan, desired.bundle, "refresh", report) as run:
        return run.do(run.stack.refresh)


def destroy(environment: str, report: Report = lambda _: None, despite_gitops: bool = False) -> Result:
    """Delete everything the stack made, protected things included, in the order in which it is safe.

    The caller has asked for consent. Nodes that existed before get their labels and taints back. Raises
    DeliveredError, unless `despite_gitops`, where Argo CD or Flux would make it all again.
    """
    try:
        desired = read(environment)
    except GpupoolError as error:
        raise StackError(f"{error}\n{_WITHOUT_FILE}") from error
    plan, bundle = desired.plan, desired.bundle
    gitops_refusal.require_ours(plan, despite_gitops, "destroy")
    # Where the program runs for its hooks it must not protect again what the consent covers.
    freed = tuple(dataclasses.replace(manifest, protect=False) for manifest in bundle)
    with Run(plan, dataclasses.replace(bundle, manifests=freed), "destroy", report) as run:
        if recovery.protected(run.deployment):
            run.unprotect("--all")
        hooks = recovery.has_hooks(run.deployment)
        destroy, at_once = run.stack.destroy, _DELETIONS
        first = orphans.before_the_engine(run.orphans)
        removed = run.remove_orphans(first)
        result = run.do(lambda **options: destroy(run_program=hooks, parallel=at_once, **options))
        result.outcome.objects |= removed
        run.remove_orphans([manifest for manifest in run.orphans if manifest not in first], result)
        return result


def _changed(desired: Desired) -> bool:
    """Whether the file says something else by now."""
    try:
        return read_plan(desired.environment) != desired.plan
    except GpupoolError:
        return True


def _verdict(desired: Desired) -> Verdict:
    """Begin to judge, and return what waits for the end of it: what policy warns of, or PolicyRefusalError.

    Judging takes as long as the engine needs to start and to read the state, so the two go side by side.
    """
    thread = ThreadPoolExecutor(1, "policy")
    today = datetime.now(UTC).date()
    judged = thread.submit(policy_gate.judge, desired.plan, today, bundle=desired.bundle)
    thread.shutdown(wait=False)

    def wait() -> tuple[PolicyFinding, ...]:
        report = judged.result()
        policy_gate.require(desired.environment, report)
        return policy_gate.shown(report)

    return wait


def _with_readiness(plan: Plan, bundle: Bundle, result: Result) -> Result:
    """Add what does not work yet; what can't ever work by itself is an error."""
    # After a change controllers get a moment to judge it; after none their verdict is there already.
    wait = readiness.WAIT_SECONDS if result.objects else 0.0
    report = readiness.inspect(access.connect(plan), bundle, wait)
    whole = dataclasses.replace(result, notes=(*result.notes, *report.waiting))
    if report.broken:
        whole.outcome.errors.extend(report.broken)
        raise StackError("\n".join(report.broken), whole)
    return whole
