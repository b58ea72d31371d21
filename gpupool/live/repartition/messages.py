"""The messages of a repartition: its window, each step, and at the end the next command. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime

from gpupool.environment.plan.model import Pool
from gpupool.live.repartition import order, windows
from gpupool.live.repartition.shapes import LiveNode
from gpupool.live.repartition.steps import Act, NextActions, NodeAction, Task


def done(environment: str, pool: str, in_line: bool, others: Sequence[str]) -> tuple[str, ...]:
    """After a pool has its new shape. `others` are the pools that the file changes as well."""
    back = (
        f"to undo it, restore the file and then run: gpupool repartition {environment} {pool} "
        f"(node by node), or gpupool refresh {environment} && gpupool up {environment} (all at once); `up` "
        "alone would find no difference between file and state"
    )
    if others:
        names, are = ", ".join(others), "is" if len(others) == 1 else "are"
        first = (
            f"quotas and the policies' parameters follow once {names} {are} done too; next: "
            f"gpupool repartition {environment} {others[0]}"
        )
        return (first, back)
    rest = "records it in its state" if in_line else "applies what else the file changes"
    return (f"`gpupool up {environment}` no longer changes its nodes, and {rest}", back)


def taken_back(environment: str) -> tuple[str, ...]:
    """After a pool has its old shape again."""
    return (f"the file still asks for the other shape: gpupool rollback {environment}, or change it back",)


def unfinished(
    environment: str,
    pool: str,
    nodes: Sequence[LiveNode],
    task: Task,
    lost: Collection[str],
    again: str | None,
) -> tuple[str, ...]:
    """After a run that has not come to its end. `again` is the command that continues, where another verb was
    in progress."""
    notes = []
    if lost:
        notes.append(
            f"have neither the old nor the new layout and stay cordoned: {', '.join(sorted(lost))}; see the "
            "log of the operator's nvidia-mig-manager and nvidia-device-plugin-daemonset pods there"
        )
    for node in nodes:
        if not node.ready and not task.settled(node):
            gone = f"repair it, or remove it from the cluster: kubectl delete node {node.name}"
            notes.append(f"{node.name} is not Ready; {gone}")
    if again is not None:
        return (*notes, f"continue with: {again}")
    command = f"gpupool repartition {environment} {pool}"
    return (*notes, f"continue with: {command}", f"undo: {command} --rollback")


def window_notes(pool: Pool, found: order.Estimate) -> tuple[str, ...]:
    """When the pool's window is open, and whether the change fits into it."""
    window = pool.window
    if window is None:
        return ()
    now = datetime.now(UTC)
    ends = windows.closes(window, now)
    when = f"open until {ends:%a %H:%M} UTC" if ends else f"opens {windows.opens(window, now):%a %H:%M} UTC"
    fits = (
        ""
        if found.seconds <= window.minutes * 60
        else "; not all nodes fit into one window, the others follow in the next"
    )
    return (f"maintenance window: {when}, {window.minutes} min{fits}",)


def step(action: NodeAction) -> str:
    """One write to the cluster."""
    # The new shape is the Plan's, so only of an old one the slices may not be known.
    shape = action.shape if action.shape and action.shape.slices else "its old shape"
    what = {Act.evict: f"evict {action.job} from", Act.relabel: f"change to {shape} on"}
    return f"{what.get(action.act, action.act.value)} {action.node}"


def waits(decision: NextActions, blocked: Mapping[str, str]) -> str:
    """What the run waits for, and what keeps jobs from being evicted."""
    rows = [f"{node}: {what}" for node, what in decision.waits.items()]
    rows += [f"{job}: {why}" for job, why in blocked.items()]
    return "waiting; " + "; ".join(rows) if rows else "waiting"
