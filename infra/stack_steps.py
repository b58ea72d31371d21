"""What must be in order before the engine runs, one named step after the other.

The order is a tuple, and says why. A step takes what the steps before it have left in the run, and raises
GpupoolError where the run must not go on. Up to the step in which policy is heard nothing has been changed,
but for what killed runs left. What each operation then does is in `operations`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import NamedTuple

from pulumi import automation

from gpupool.cluster.kube_api import ApiError, UnreachableError
from gpupool.cluster.kubeconfig import KubeconfigError
from gpupool.infra import (
    access,
    chart_records,
    locks,
    operator_changes,
    orphans,
    recovery,
    repartition_mark,
    run_marks,
    running_workloads,
    sharing_changes,
    state_files,
)
from gpupool.infra.disk_reserve import DiskReserve
from gpupool.infra.engine import PROJECT
from gpupool.infra.run_context import RunContext
from gpupool.infra.run_marks import cluster_id


class Step(NamedTuple):
    title: str
    """What is being done, shown as progress; empty for a step that takes no time."""
    do: Callable[[RunContext], None]


def take(steps: Iterable[Step], run: RunContext) -> None:
    """One after the other. Raises what they raise, GpupoolError."""
    for step in steps:
        if step.title:
            run.report(step.title)
        step.do(run)


def require_cluster(run: RunContext) -> None:
    """The cluster answers, so that a run fails once and not object by object. Not asked for a preview of a
    cluster that is not local."""
    if run.operation != "preview" or run.plan.cluster.platform == "local":
        access.require_cluster(run.plan)


def clear_what_killed_runs_left(run: RunContext) -> None:
    """Locks of processes that are gone, and files that were written in part."""
    if locks.clear_locks(run.backend, PROJECT, run.stack_name):
        run.note("removed the lock of a run that was killed")
    if state_files.clear_left(run.backend, PROJECT, run.stack_name):
        run.note("removed partial files that a killed run left beside the state")


def reserve_disk(run: RunContext) -> None:
    """Room for the state that this run may write."""
    run.disk = DiskReserve("" if run.operation == "preview" else run.backend, PROJECT, run.stack_name)
    run.disk.take(len(run.bundle.manifests) if run.operation == "up" else 0)


def read_state(run: RunContext) -> None:
    """The stack's state, and whether an earlier run ended before it saved its own."""
    run.marks = run_marks.Marks(run.backend, PROJECT, run.stack_name)
    run.recorded = run.exported()


def hear_policy(run: RunContext) -> None:
    """Wait for the verdict, which was begun when the run was."""
    run.warnings = run.verdict()


def have_a_stack(run: RunContext) -> None:
    """A stack of that name, an empty one where there was none."""
    run.deployment = run.created() if run.recorded is None else run.recorded


def require_same_cluster(run: RunContext) -> None:
    """The state is of this cluster, no repartition runs, and what one has made is taken over."""
    if run.operation == "refresh":
        return
    # The engine reports an unreachable cluster with its own message.
    with contextlib.suppress(UnreachableError, KubeconfigError):
        api = access.connect(run.plan)
        if not run.marks.left or not run.marks.same_cluster(cluster_id(api)):
            recovery.require_same_cluster(run.deployment, api, run.stack_name)
        if run.operation not in ("up", "preview"):
            return
        if run.operation == "up":
            repartition_mark.require_none(api, run.stack_name)
        unseen = repartition_mark.unseen(api, run.bundle, run.deployment)
        run.notes += sharing_changes.notes(api, run.plan, run.bundle, unseen)


def say_what_would_not_restart(run: RunContext) -> None:
    """What runs and policies would refuse. A preview's alone: by the time of `up` somebody has decided."""
    if run.operation != "preview":
        return
    with contextlib.suppress(UnreachableError, KubeconfigError):
        try:
            restarts = running_workloads.restarts(access.connect(run.plan), run.plan, run.bundle)
        except ApiError as error:
            if error.status != 403:
                raise
            return
        if text := running_workloads.note(restarts, run.stack_name):
            run.note(text)


def look_for_our_objects(run: RunContext) -> None:
    """What the cluster holds of the environment. Not asked where Argo CD or Flux delivers, which take away
    what they have made, nor by `refresh`, which reads only the state."""
    if run.operation != "refresh" and not run.plan.delivery.gitops:
        with contextlib.suppress(UnreachableError, KubeconfigError):
            run.held = orphans.find(access.connect(run.plan), run.stack_name)
            run.gone = run.held.gone(run.deployment)
    if run.held.hidden:
        kinds = ", ".join(run.held.hidden)
        run.note(f"not allowed to list {kinds}: leftovers of an earlier state are not found")
    destroys = run.operation == "destroy"
    run.orphans = (
        run.held.unrecorded(run.deployment) if destroys else run.held.beside(run.bundle, run.deployment)
    )


def go_on_after_an_interrupted_run(run: RunContext) -> None:
    """Take what was under way out of the state; the engine does it over."""
    left = recovery.pending(run.deployment)
    run.under_way = recovery.begun(run.deployment)
    if run.marks.left and run.operation != "refresh":
        run.note("an earlier run was stopped before it saved its state: reading every object again")
    if left and run.operation != "preview":
        run.note(f"continuing after an interrupted run: {', '.join(left)}")
        run.deployment = recovery.without_pending(run.deployment)
        with run.in_our_words():
            run.stack.import_stack(automation.Deployment(version=3, deployment=run.deployment))


def say_what_restarts(run: RunContext) -> None:
    """The operator's pods, and the nodes that are cordoned for them."""
    if run.operation in ("up", "preview"):
        run.notes += operator_changes.notes(run.deployment, run.bundle)


def refuse_objects_of_others(run: RunContext) -> None:
    """Nothing that the run would make belongs to somebody else. What is ours and not in the state was made by
    a run that was killed, or the state is lost: the engine takes it over."""
    if run.operation not in ("up", "preview"):
        return
    settled = orphans.in_state(run.deployment) | run.held.keys
    # A preview shows what it can of a cluster that does not answer.
    with contextlib.suppress(*(() if run.operation == "up" else (UnreachableError, KubeconfigError))):
        orphans.require_none_foreign(
            access.connect(run.plan),
            run.stack_name,
            [manifest for manifest in run.bundle if orphans.key_of(manifest.body) not in settled],
        )


def clear_records_of_charts(run: RunContext) -> None:
    """No record of Helm's keeps the engine from installing or upgrading a chart of this environment."""
    if run.operation not in ("up", "preview") or not run.bundle.releases:
        return
    with contextlib.suppress(*(() if run.operation == "up" else (UnreachableError, KubeconfigError))):
        api, known = access.connect(run.plan), recovery.recorded(run.deployment)
        # A run that saves its state once leaves a mark, and no note of what it was working on.
        begun = run.under_way | (known if run.marks.left else frozenset())
        records = chart_records.in_the_way(api, run.stack_name, run.bundle.releases, known, begun)
        if records and run.operation == "up":
            names = ", ".join(sorted({record.release.name for record in records}))
            run.note(
                f"an earlier run was stopped while Helm worked on {names}: its pending records are removed"
            )
            chart_records.delete(api, records)


BEFORE_THE_ENGINE = (Step("connecting to the cluster", require_cluster),)
"""Before anything is started."""
PREPARATION = (
    # A killed run's lock would refuse the next steps.
    Step("", clear_what_killed_runs_left),
    # A full disk is found before the state is written, and nothing of ours is written before.
    Step("", reserve_disk),
    Step("reading the state", read_state),
    # Judging went on beside all of the above; what it denies has changed nothing.
    Step("checking policies", hear_policy),
    Step("", have_a_stack),
    Step("comparing the state with the cluster", require_same_cluster),
    Step("", say_what_restarts),
    Step("", say_what_would_not_restart),
    Step("looking for objects of the environment", look_for_our_objects),
    # Needs to know what is ours in the cluster, and that it is the same one.
    Step("looking for interrupted runs", go_on_after_an_interrupted_run),
    Step("looking for objects of others", refuse_objects_of_others),
    # Needs to know what an interrupted run was doing.
    Step("looking for charts that are half installed", clear_records_of_charts),
)
"""With the engine at hand, before its run."""
