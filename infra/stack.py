"""preview, up, refresh and destroy of one environment, from its file: what is read, judged and consented to.

What each does is in `operations`. Same project, program, stack and state as the plain Pulumi CLI. Everything
that can be known to be wrong is found before anything is sent: a wrong file, what policy denies, a lock,
protected things that would go.
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
from gpupool.infra import gitops_refusal, policy_gate
from gpupool.infra.engine import Report
from gpupool.infra.operations import carry_out
from gpupool.infra.run_context import RunContext, Verdict
from gpupool.infra.stack_result import Result, StackError
from gpupool.plan.model import Plan
from gpupool.plan.resolve import read_plan

if TYPE_CHECKING:
    from gpupool.findings import Finding

_WITHOUT_FILE = (
    "destroy reads the file to know the cluster, and which nodes to give back: fix it, or restore it "
    "from version control. Where it is lost, everything but the labels of existing nodes goes with plain "
    'Pulumi: eval "$(gpupool local env)" (of a local environment), pulumi state unprotect --all -s NAME, '
    "pulumi destroy -s NAME"
)
_MEANWHILE = "{0} has changed meanwhile; what was read before is what was applied; go on with: gpupool up {0}"


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
    return carry_out(
        RunContext(desired.plan, desired.bundle, "preview", report, _verdict(desired), allow_delete)
    )


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
    run = RunContext(desired.plan, desired.bundle, "up", report, _verdict(desired), allow_delete)
    carry_out(run)
    if _changed(desired):
        run.add_notes(_MEANWHILE.format(desired.environment))
    return run.result


def refresh(desired: Desired, report: Report = lambda _: None) -> Result:
    """Find what others have changed or deleted, and record it in the state, so that the next `up` restores
    it."""
    return carry_out(RunContext(desired.plan, desired.bundle, "refresh", report))


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
    bundle = dataclasses.replace(desired.bundle, manifests=freed)
    return carry_out(RunContext(desired.plan, bundle, "destroy", report))


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

    def wait() -> tuple[Finding, ...]:
        report = judged.result()
        policy_gate.require(desired.environment, report)
        return policy_gate.shown(report)

    return wait
