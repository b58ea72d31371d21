"""The loop: read, decide, act, until every node of the pool has its new shape or the old one again.

Handles the order of phases, the clock and the lock; every decision about a node is in `steps`.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from gpupool.environment.plan.model import Plan, Pool
from gpupool.findings import GpupoolError, UsageError
from gpupool.generators import generate
from gpupool.generators.manifest import Bundle
from gpupool.live.cluster.kube_api import KubeApi
from gpupool.live.repartition import journal, messages, order, owner, phases, preparation, windows
from gpupool.live.repartition.cluster import PoolNodes
from gpupool.live.repartition.journal import Journal, RepartitionLock
from gpupool.live.repartition.result import RepartitionResult, RepartitionStatus, rows
from gpupool.live.repartition.shapes import LiveNode, wanted
from gpupool.live.repartition.steps import Act, RepartitionLimits, Seen, Task, decide
from gpupool.live.repartition.watch import Watch

TIMEOUT_SECONDS = 600.0
"""For one node, twice what a change of layout is expected to take (`order.MIG_SECONDS`); three times where
machines reboot."""
Notify = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class RepartitionOptions:
    """How the user wants it done."""

    evict: bool = False
    now: bool = False
    """Ignore the maintenance window."""
    wait: bool = False
    """Wait for the window instead of giving up."""
    rollback: bool = False
    timeout: float | None = None
    """Seconds that the operator gets for one node; None for the default (TIMEOUT_SECONDS)."""
    again: str | None = None
    """The command that continues, where this is a part of another verb; None where it stands alone."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How often to read the cluster; tests do so more often."""

    poll: float = 2.0
    settle: float = 30.0
    """Seconds until `failed` is taken to be about the present label."""


def repartition(
    api: KubeApi,
    plan: Plan,
    pool_name: str,
    options: RepartitionOptions = RepartitionOptions(),
    notify: Notify = lambda _: None,
    pace: Pace = Pace(),
) -> RepartitionResult:
    """Bring the running nodes of a pool into the shape that the plan says, or go on with what was begun.

    Raises GpupoolError: for an unknown pool, another run at work, a cluster of another environment, a
    repartition of another pool or to another shape that has not ended, a closed window (unless asked to
    wait), changes that can't be done in place.
    """
    pool = pool_of(plan, pool_name)
    bundle = generate(plan)
    owner.require_own(api, bundle.environment)
    if journal.read(api) is None and not options.rollback and pending_change(api, bundle, pool) is not None:
        _await_window(pool, options, notify, pace)
    with journal.locked(api) as lock:
        return _Run(api, plan, bundle, pool, options, notify, pace, lock).run()


def dry_run(
    api: KubeApi, plan: Plan, pool_name: str, options: RepartitionOptions = RepartitionOptions()
) -> RepartitionResult:
    """The order and the expected duration; changes nothing. Raises as `repartition` does."""
    pool = pool_of(plan, pool_name)
    bundle = generate(plan)
    owner.require_own(api, bundle.environment)
    nodes = PoolNodes(api, pool).read_nodes(all_jobs=True)
    noted = _matching(journal.read(api), bundle, pool, options)
    noted = noted or preparation.journal_for(api, bundle, pool, nodes, datetime.now(UTC))
    if noted is None:
        return RepartitionResult(bundle.environment, pool.name, RepartitionStatus.nothing)
    task = preparation.task_for(noted, pool, nodes, order.order(nodes))
    reboots = _reboots(pool)
    settled = {node.name for node in nodes if task.settled(node)}
    changes = [
        (name, order.change_seconds(task.old[name], task.new[name], reboots))
        for name in task.order
        if name not in settled
    ]
    estimate = order.estimate(nodes, changes, pool.max_unavailable, options.evict)
    return RepartitionResult(
        bundle.environment,
        pool.name,
        RepartitionStatus.planned,
        rows(nodes, task),
        messages.window_notes(pool, estimate),
        estimate,
    )


def pending_change(api: KubeApi, bundle: Bundle, pool: Pool) -> Journal | None:
    """The journal with which a repartition of the pool would begin now; None if there is nothing to do.
    Nothing is written. Raises GpupoolError for changes that can't be done in place."""
    return preparation.journal_for(api, bundle, pool, PoolNodes(api, pool).read_nodes(), datetime.now(UTC))


def pool_of(plan: Plan, name: str) -> Pool:
    """The pool of that name. Raises UsageError naming those that there are."""
    for pool in plan.pools:
        if pool.name == name:
            return pool
    there = ", ".join(pool.name for pool in plan.pools) or "none"
    raise UsageError(f"{plan.environment} has no pool {name!r}; pools: {there}")


class _Run:
    """One run under the lock. What another run needs to continue it is in the journal and on the nodes."""

    def __init__(
        self,
        api: KubeApi,
        plan: Plan,
        bundle: Bundle,
        pool: Pool,
        options: RepartitionOptions,
        notify: Notify,
        pace: Pace,
        lock: RepartitionLock,
    ) -> None:
        self._api, self._plan, self._bundle, self._pool = api, plan, bundle, pool
        self._options, self._notify, self._pace, self._lock = options, notify, pace, lock
        self._nodes = PoolNodes(api, pool)
        self._order: list[str] = []
        """Names of the nodes in the order in which they are taken: as at the run's first read."""
        self._interrupted = False
        self._last_waits = ""
        patience = TIMEOUT_SECONDS * (3 if _reboots(pool) else 1)
        self._watch = Watch(options.timeout or patience, pace.settle)

    def run(self) -> RepartitionResult:
        noted = _matching(journal.read(self._api), self._bundle, self._pool, self._options)
        if noted is None:
            if self._options.rollback:
                return RepartitionResult(self._bundle.environment, self._pool.name, RepartitionStatus.nothing)
            nodes = self._nodes.read_nodes()
            noted = preparation.journal_for(self._api, self._bundle, self._pool, nodes, datetime.now(UTC))
            if noted is None:
                return self._nothing_to_do(nodes)
            journal.write(self._api, noted)
        noted = self._prepared(noted)
        if noted.phase == "finish":
            nodes = self._nodes.read_nodes()
            return self._finished(
                noted, nodes, preparation.task_for(noted, self._pool, nodes, order.order(nodes))
            )
        try:
            nodes, task, seen = self._work(noted)
        except KeyboardInterrupt:
            # Nodes that still wait for their jobs are given back; what the operator has begun stays begun.
            self._interrupted = True
            nodes, task, seen = self._work(noted)
        if all(task.settled(node) for node in nodes):
            return self._finished(noted, nodes, task)
        return self._unfinished(nodes, task, seen)

    def _prepared(self, noted: Journal) -> Journal:
        """The journal in phase `work` or `finish`, and backwards if the options say so. Even then it is
        prepared forward first: only after that is it known which label means which shape."""
        noted = self._prepare(noted)
        if self._options.rollback and not noted.backwards:
            noted = self._prepare(journal.advance(self._api, noted, backwards=True, phase="prepare"))
        return noted

    def _prepare(self, noted: Journal) -> Journal:
        if noted.phase != "prepare":
            return noted
        phases.prepare(self._api, self._bundle, self._pool, noted, self._nodes, self._notify)
        return journal.advance(self._api, noted, phase="work")

    def _work(self, noted: Journal) -> tuple[list[LiveNode], Task, Seen]:
        """Change nodes until nothing is under way and nothing may be begun; return the last state that was
        read."""
        while True:
            self._lock.renew()
            nodes = self._nodes.read_nodes()
            if not self._order:
                self._order = order.order(self._nodes.read_nodes(all_jobs=True))
            task = preparation.task_for(noted, self._pool, nodes, self._order)
            seen = self._watch.observe(nodes, task, time.monotonic())
            decision = decide(nodes, task, self._rules(), seen)
            for action in decision.actions:
                self._notify(messages.step(action))
                self._nodes.do(action)
            quitting = self._interrupted and not decision.actions
            if quitting or (decision.over and not self._waits_for_window(nodes, task, seen)):
                return nodes, task, seen
            # A pause if there was nothing to do, or only evictions: one that a disruption budget holds up is
            # asked for again.
            if all(action.act is Act.evict for action in decision.actions):
                self._say(messages.waits(decision, self._nodes.blocked))
                time.sleep(self._pace.poll)

    def _say(self, waits: str) -> None:
        """Report what is waited for, once."""
        if waits != self._last_waits:
            self._notify(waits)
        self._last_waits = waits

    def _rules(self) -> RepartitionLimits:
        open_now = self._options.now or windows.is_open(self._pool.window, datetime.now(UTC))
        return RepartitionLimits(
            self._pool.max_unavailable, open_now and not self._interrupted, self._options.evict
        )

    def _waits_for_window(self, nodes: Sequence[LiveNode], task: Task, seen: Seen) -> bool:
        done = all(task.settled(node) for node in nodes)
        return self._options.wait and not done and not seen.failed and not self._rules().may_begin

    def _nothing_to_do(self, nodes: Sequence[LiveNode]) -> RepartitionResult:
        shapes = {node.name: wanted(self._pool, node.machine) for node in nodes}
        task = Task(shapes, shapes, sorted(shapes))
        notes = [] if nodes else [f"pool {self._pool.name} has no nodes now; use `up`"]
        if not all(task.settled(node) for node in nodes):
            notes.append(f"there are differences, however: gpupool assert {self._bundle.environment}")
        return RepartitionResult(
            self._bundle.environment,
            self._pool.name,
            RepartitionStatus.nothing,
            rows(nodes, task),
            tuple(notes),
        )

    def _finished(self, noted: Journal, nodes: Sequence[LiveNode], task: Task) -> RepartitionResult:
        api, bundle, pool = self._api, self._bundle, self._pool
        noted = journal.advance(api, noted, phase="finish")
        complete = False  # whether the settings are now all that the file asks for
        if noted.backwards:
            phases.finish_back(api, bundle, pool, noted, self._nodes, nodes, self._notify)
        else:
            complete = phases.finish(api, bundle, pool, noted, nodes, self._notify)
        journal.remove(api)
        nodes = self._nodes.read_nodes()
        status = RepartitionStatus.rolled_back if noted.backwards else RepartitionStatus.done
        notes: tuple[str, ...] = ()
        if self._options.again is None:
            notes = messages.taken_back(bundle.environment)
            if not noted.backwards:
                others = _remaining(api, bundle, [one for one in self._plan.pools if one.name != pool.name])
                notes = messages.done(bundle.environment, pool.name, complete, others)
        # Held nodes have their usual label again.
        shown = Task(task.new, {node.name: node.shape() for node in nodes}, task.order)
        return RepartitionResult(bundle.environment, pool.name, status, rows(nodes, shown), notes)

    def _unfinished(self, nodes: Sequence[LiveNode], task: Task, seen: Seen) -> RepartitionResult:
        environment, pool = self._bundle.environment, self._pool.name
        status = RepartitionStatus.shut
        if self._interrupted:
            status = RepartitionStatus.interrupted
        elif seen.failed or seen.lost or self._rules().may_begin:
            status = RepartitionStatus.stopped
        notes = messages.unfinished(environment, pool, nodes, task, seen.lost, self._options.again)
        return RepartitionResult(environment, pool, status, rows(nodes, task), notes)


def _remaining(api: KubeApi, bundle: Bundle, pools: Iterable[Pool]) -> list[str]:
    """Which of `pools` could be repartitioned now; those that only `up` can change are left out."""
    found = []
    for pool in pools:
        with contextlib.suppress(GpupoolError):
            if pending_change(api, bundle, pool) is not None:
                found.append(pool.name)
    return found


def begun_towards(api: KubeApi, bundle: Bundle, pool: Pool) -> bool:
    """Whether the repartition that has begun brings `pool` where `bundle` wants it."""
    noted = journal.read(api)
    return noted is not None and not noted.backwards and noted.target == preparation.target(bundle, pool)


def _matching(
    noted: Journal | None, bundle: Bundle, pool: Pool, options: RepartitionOptions
) -> Journal | None:
    """The journal, where it is about this pool and this shape. Raises GpupoolError where it is not."""
    if noted is None:
        return None
    how = f"gpupool repartition {bundle.environment} {noted.pool}"
    if noted.pool != pool.name:
        raise GpupoolError(
            f"a repartition of pool {noted.pool} started at {noted.started}; finish it first ({how}) "
            f"or undo it ({how} --rollback)"
        )
    if not options.rollback and not noted.backwards and noted.target != preparation.target(bundle, pool):
        raise GpupoolError(
            f"since {noted.started} pool {pool.name} is being repartitioned to a different configuration "
            f"than that of the file; undo that first ({how} --rollback), or restore the file and finish it "
            f"({how})"
        )
    return noted


def _await_window(pool: Pool, options: RepartitionOptions, notify: Notify, pace: Pace) -> None:
    """Return when the maintenance window is open or need not be. Raises GpupoolError where it is closed and
    nobody asked to wait."""
    window = pool.window
    while window is not None and not options.now and not windows.is_open(window, datetime.now(UTC)):
        opens = windows.opens(window, datetime.now(UTC))
        if not options.wait:
            raise GpupoolError(
                f"the maintenance window of pool {pool.name} opens at {opens:%a %Y-%m-%d %H:%M} UTC; use "
                "--wait to wait for it, or --now to start immediately"
            )
        notify(f"waiting for the maintenance window, which opens at {opens:%a %H:%M} UTC")
        time.sleep(min(60.0, pace.poll * 10))


def _reboots(pool: Pool) -> bool:
    """Whether machines reboot to enter MIG mode: those of clouds are virtual."""
    return bool(pool.capacities) and pool.gpu.reboots_into_mig
