"""preview, up, refresh and destroy: the named steps of each, once everything is in order for the engine.

OPERATIONS is the only place that knows what an operation consists of, and in which order. Everything that can
be known to be wrong is found before the step in which the engine runs. Must not decide what may be run at all
(`stack`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpupool.generators.manifest import Manifest
from gpupool.infra import (
    access,
    engine_run,
    orphans,
    readiness,
    recovery,
    repartition_mark,
    resource_values,
    unseen_changes,
)
from gpupool.infra.engine import opened
from gpupool.infra.recovery import ProtectedError
from gpupool.infra.run_context import RunContext
from gpupool.infra.stack_events import ObjectChange, deletion, removal
from gpupool.infra.stack_result import Result, StackError
from gpupool.infra.stack_steps import BEFORE_THE_ENGINE, PREPARATION, Step, take


def find_losses(run: RunContext) -> None:
    """Protected things that the engine would delete, and, where not all that would go is allowed, how to
    consent. Raises UsageError for a name in `allow_delete` that does not go."""
    kept = [resource_values.logical_name(manifest) for manifest in run.bundle]
    lost, beside = recovery.losses(run.deployment, kept), orphans.protected(run.orphans)
    recovery.require_going(run.allow_delete - beside, run.deployment, kept)
    run.lost = [*lost.values()]
    run.refused = recovery.consent((lost.keys() | beside) - run.allow_delete, run.stack_name)


def show_losses(run: RunContext) -> None:
    """What the engine is not asked about, as part of the preview."""
    rows = {row["urn"]: row for row in run.deployment.get("resources") or ()}
    run.apart = {urn: deletion(rows[urn]) for urn in run.lost}
    run.apart |= {f"orphan:{manifest}": removal(manifest) for manifest in run.orphans}
    if summary := orphans.summary(run.orphans):
        run.notes.append(summary)


def require_consent(run: RunContext) -> None:
    """Nothing protected goes that may not, and what may is no longer protected. Raises ProtectedError."""
    if run.refused:
        raise ProtectedError(run.refused)
    for urn in run.lost:
        run.unprotect(urn)


def unprotect_everything(run: RunContext) -> None:
    """The caller has asked for consent to all of it."""
    if recovery.protected(run.deployment):
        run.unprotect("--all")


def remove_first_orphans(run: RunContext) -> None:
    """Those that would have what the engine deletes made again, or could not go after it."""
    run.apart = _removed(run, orphans.before_the_engine(run.orphans))
    require_removed(run.apart)


def remove_orphans(run: RunContext) -> None:
    """Those that are left, which the engine does not know. Raises StackError with what was done."""
    removed = _removed(run, [orphan for orphan in run.orphans if f"orphan:{orphan}" not in run.apart])
    run.result.outcome.objects |= removed
    require_removed(removed, run.result)


def _removed(run: RunContext, manifests: Iterable[Manifest]) -> dict[str, ObjectChange]:
    return {
        f"orphan:{manifest}": removal(manifest, done=problem is None, error=problem)
        for manifest, problem in orphans.remove(access.connect(run.plan), manifests, run.report)
    }


def require_removed(removed: Mapping[str, ObjectChange], result: Result | None = None) -> None:
    """Raise StackError where one of them is still there."""
    problems = [change.error for change in removed.values() if change.error]
    if problems:
        raise StackError("\n".join(problems), result)


def clear_repartition(run: RunContext) -> None:
    """What a repartition has left, now that the plain configurations are in place."""
    left = repartition_mark.clear_left(access.connect(run.plan), run.bundle)
    if left:
        run.add_notes(f"removed leftovers of a repartition: ConfigMap {', '.join(left)}")


def require_readiness(run: RunContext) -> None:
    """Add what does not work yet; what can't ever work by itself is an error."""
    # After a change controllers get a moment to judge it; after none their verdict is there already.
    wait = readiness.WAIT_SECONDS if run.result.objects else 0.0
    unready = readiness.inspect(access.connect(run.plan), run.bundle, wait)
    run.add_notes(*unready.waiting)
    if unready.broken:
        run.result.outcome.errors.extend(unready.broken)
        raise StackError("\n".join(unready.broken), run.result)


ENGINE = Step("running Pulumi", engine_run.run_engine)
OPERATIONS: Mapping[str, tuple[Step, ...]] = {
    "preview": (
        Step("checking for deletions of protected objects", find_losses),
        Step("", show_losses),
        ENGINE,
    ),
    "up": (
        Step("checking for deletions of protected objects", find_losses),
        Step("checking the confirmation", require_consent),
        ENGINE,
        Step("", unseen_changes.finish),
        # The engine has made what takes their place, and the namespaces that are to stay.
        Step("removing objects that are not in the state", remove_orphans),
        Step("clearing up after repartitions", clear_repartition),
        Step("waiting for applied objects", require_readiness),
    ),
    "refresh": (
        ENGINE,
        # Of what the engine has read.
        Step("checking fields that the provider does not compare", unseen_changes.record),
    ),
    "destroy": (
        Step("allowing deletions", unprotect_everything),
        Step("removing objects that must be deleted first", remove_first_orphans),
        ENGINE,
        Step("removing objects that are not in the state", remove_orphans),
    ),
}


def carry_out(run: RunContext) -> Result:
    """Every step of the run's operation. Raises what they raise, GpupoolError."""
    take(BEFORE_THE_ENGINE, run)
    engine = opened(run.stack_name, run.plan.cluster.platform, lambda: engine_run.registered(run), run.report)
    with engine as (run.stack, run.command):
        try:
            take((*PREPARATION, *OPERATIONS[run.operation]), run)
        finally:
            run.disk.release()
    return run.result
