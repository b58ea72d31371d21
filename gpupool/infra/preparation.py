"""What must be in order before the engine runs: state, policy, cluster, objects of others, charts.

Each stage takes the values of those before it and returns its own; `prepared` defines their order. A stage
raises GpupoolError where the run must not go on. Until policy has been heard nothing is changed, but for what
killed runs have left.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpupool.generators.manifest import Manifest
from gpupool.infra import chart_records, operator_changes, recovery
from gpupool.infra.engine import PROJECT
from gpupool.infra.run_marks import Marks, cluster_id
from gpupool.infra.session import Request, Session, started
from gpupool.live.cluster import access
from gpupool.live.cluster.kube_api import ApiError, UnreachableError
from gpupool.live.cluster.kubeconfig import KubeconfigError
from gpupool.live.objects import orphans, repartition_mark, running_workloads, sharing_changes

if TYPE_CHECKING:
    from gpupool.findings import Finding

Verdict = Callable[[], "tuple[Finding, ...]"]
"""Waits for what policy says: its warnings. Raises PolicyRefusalError."""


@dataclass(frozen=True)
class Recorded:
    """The stack's state as it was found, and what policy warns of."""

    marks: Marks
    """Whether an earlier run ended before it saved its state."""
    deployment: dict[str, Any]
    warnings: tuple[Finding, ...]


@dataclass(frozen=True)
class Surveyed:
    """What the cluster holds of the environment, compared with state and file."""

    held: orphans.OwnObjects
    gone: frozenset[orphans.Key]
    """What the state names and the cluster does not hold as ours."""
    orphans: tuple[Manifest, ...]
    """Objects of this environment that are not in the state and, except for `destroy`, not in the file."""
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Resumed:
    """The state without what an interrupted run was doing, which the engine does over."""

    deployment: dict[str, Any]
    begun: frozenset[str]
    """Names in Pulumi of what was being made, changed or deleted."""
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Ready:
    """What the engine goes on with."""

    session: Session
    marks: Marks
    deployment: dict[str, Any]
    gone: frozenset[orphans.Key]
    orphans: tuple[Manifest, ...]
    warnings: tuple[Finding, ...]
    notes: tuple[str, ...]

    @property
    def request(self) -> Request:
        return self.session.request

    def noted(self, *texts: str) -> Ready:
        """The same, with further notes for the result."""
        return dataclasses.replace(self, notes=(*self.notes, *texts))


@contextlib.contextmanager
def prepared(request: Request, verdict: Verdict = tuple) -> Iterator[Ready]:
    """Every stage up to the engine's run, in order. Raises what they raise, GpupoolError."""
    report = request.report
    with started(request) as session:
        # Policy is judged in parallel up to here. A denial has changed nothing.
        recorded = _read(session, verdict)
        report("comparing the state with the cluster")
        notes = [*session.notes, *_compare(session, recorded)]
        report("looking for objects of the environment")
        surveyed = _survey(session, recorded.deployment)
        # Needs to know that the state is of this cluster: notes of begun operations are removed from it.
        report("looking for interrupted runs")
        resumed = _resume(session, recorded)
        notes += (*surveyed.notes, *resumed.notes)
        if request.applies:
            report("looking for objects of others")
            _refuse_foreign(request, resumed.deployment, surveyed.held)
            report("looking for charts that are half installed")
            notes += _clear_charts(request, recorded.marks, resumed)
        yield Ready(
            session,
            recorded.marks,
            resumed.deployment,
            surveyed.gone,
            surveyed.orphans,
            recorded.warnings,
            tuple(notes),
        )


def _read(session: Session, verdict: Verdict) -> Recorded:
    """The state, of a stack that is made where there is none and policy denies nothing."""
    request = session.request
    request.report("reading the state")
    marks = Marks(session.backend, PROJECT, request.environment)
    deployment = session.exported()
    request.report("checking policies")
    warnings = verdict()
    if deployment is None:
        session.create()
    return Recorded(marks, deployment or {}, warnings)


def _compare(session: Session, recorded: Recorded) -> Iterator[str]:
    """Check that the state is of this cluster and no repartition runs; yields what a run would restart."""
    request, deployment = session.request, recorded.deployment
    if request.operation == "refresh":
        return
    environment, plan, bundle = request.environment, request.plan, request.bundle
    # The engine reports an unreachable cluster with its own message.
    with contextlib.suppress(UnreachableError, KubeconfigError):
        api = access.connect(plan)
        if not recorded.marks.left or not recorded.marks.same_cluster(cluster_id(api)):
            recovery.require_same_cluster(deployment, api, environment)
        if request.operation == "up":
            repartition_mark.require_none(api, environment)
        if request.applies:
            unseen = repartition_mark.unseen(api, bundle, deployment)
            yield from sharing_changes.notes(api, plan, bundle, unseen)
    if request.applies:
        yield from operator_changes.notes(deployment, bundle)
    if request.operation == "preview" and (text := _what_would_not_restart(request)):
        yield request.note(text)


def _what_would_not_restart(request: Request) -> str | None:
    """What runs and policies would refuse. A preview's alone: by the time of `up` somebody has decided."""
    with contextlib.suppress(UnreachableError, KubeconfigError):
        try:
            restarts = running_workloads.restarts(access.connect(request.plan), request.plan, request.bundle)
        except ApiError as error:
            if error.status != 403:
                raise
            return None
        return running_workloads.note(restarts, request.environment)
    return None


def _survey(session: Session, deployment: dict[str, Any]) -> Surveyed:
    """Not asked of a cluster where Argo CD or Flux delivers, which take away what they have made, nor by
    `refresh`, which reads only the state."""
    request, held, gone = session.request, orphans.OwnObjects(), frozenset[orphans.Key]()
    if request.operation != "refresh" and not request.plan.delivery.gitops:
        with contextlib.suppress(UnreachableError, KubeconfigError):
            held = orphans.find(access.connect(request.plan), request.environment)
            gone = held.gone(deployment)
    notes = []
    if kinds := ", ".join(held.hidden):
        text = f"not allowed to list {kinds}: leftovers of an earlier state are not found"
        notes.append(request.note(text))
    destroys = request.operation == "destroy"
    left = held.unrecorded(deployment) if destroys else held.beside(request.bundle, deployment)
    return Surveyed(held, gone, left, tuple(notes))


def _resume(session: Session, recorded: Recorded) -> Resumed:
    """Take what was under way out of the state; the engine does it over."""
    request, deployment, notes = session.request, recorded.deployment, []
    left, begun = recovery.pending(deployment), recovery.begun(deployment)
    if recorded.marks.left and request.operation != "refresh":
        text = "an earlier run was stopped before it saved its state: reading every object again"
        notes.append(request.note(text))
    if left and request.operation != "preview":
        notes.append(request.note(f"continuing after an interrupted run: {', '.join(left)}"))
        deployment = recovery.without_pending(deployment)
        session.save(deployment)
    return Resumed(deployment, begun, tuple(notes))


def _refuse_foreign(request: Request, deployment: dict[str, Any], held: orphans.OwnObjects) -> None:
    """Nothing that the run would make belongs to somebody else. What is ours and not in the state was made by
    a run that was killed, or the state is lost: the engine takes it over."""
    settled = orphans.in_state(deployment) | held.keys
    with _previewed(request):
        orphans.require_none_foreign(
            access.connect(request.plan),
            request.environment,
            [manifest for manifest in request.bundle if orphans.key_of(manifest.body) not in settled],
        )


def _clear_charts(request: Request, marks: Marks, resumed: Resumed) -> Iterator[str]:
    """No record of Helm's keeps the engine from installing or upgrading a chart of this environment."""
    if not request.bundle.releases:
        return
    with _previewed(request):
        api, known = access.connect(request.plan), recovery.recorded(resumed.deployment)
        # A run that saves its state once leaves a mark, and no note of what it was working on.
        begun = resumed.begun | (known if marks.left else frozenset())
        records = chart_records.in_the_way(api, request.environment, request.bundle.releases, known, begun)
        if records and request.operation == "up":
            names = ", ".join(sorted({record.release.name for record in records}))
            yield request.note(
                f"an earlier run was stopped while Helm worked on {names}: its pending records are removed"
            )
            chart_records.delete(api, records)


def _previewed(request: Request) -> contextlib.AbstractContextManager[None]:
    """A preview shows what it can of a cluster that does not answer."""
    ignored = (UnreachableError, KubeconfigError) if request.operation == "preview" else ()
    return contextlib.suppress(*ignored)
