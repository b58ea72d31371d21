"""What a node has and should have: the labels that steer its operands, its slices, its jobs. Pure, no I/O.

Labels and states: gpu-operator v26.7.0, k8s-device-plugin v0.20.0, mig-parted v0.15.0.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from gpupool.environment.plan.model import Pool
from gpupool.live.cluster.live_objects import (
    INSTANCE_TYPE_LABEL,
    MIG_LABEL,
    MIG_STATE_LABEL,
    NO_LAYOUT,
    PLUGIN_LABEL,
    is_gpu_job,
    is_ready,
    offered,
)
from gpupool.live.objects.repartition_mark import MARK
from gpupool.live.objects.sharing_changes import asked


@dataclass(frozen=True, slots=True)
class Shape:
    """How a node's GPUs are shared."""

    plugin: str
    """Value of nvidia.com/device-plugin.config; empty where the label is not set."""
    mig: str | None
    """Value of nvidia.com/mig.config; None where the GPUs are not partitioned."""
    slices: Mapping[str, int]
    """Extended resource -> count that the node then has allocatable, zeros left out. Empty for an
    old shape that is unknown: a node that offered nothing when the change began."""

    def labels(self) -> dict[str, str | None]:
        """The steering labels; None for one that must not be there."""
        return {PLUGIN_LABEL: self.plugin or None, MIG_LABEL: self.mig}

    def __str__(self) -> str:
        counts = [
            f"{count} {name.removeprefix('nvidia.com/')}" for name, count in sorted(self.slices.items())
        ]
        return ", ".join(counts) or "nothing"


@dataclass(frozen=True, slots=True)
class GpuPod:
    """A pod that holds a GPU or a part of one."""

    namespace: str
    name: str
    grace: int
    """Seconds that it has to end once it is asked to (terminationGracePeriodSeconds)."""
    leaving: bool
    """It is terminating."""
    remaining: float | None
    """Seconds until its activeDeadlineSeconds are over; None where it has no deadline."""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Mark:
    """The note on a node that is being worked on."""

    cordoned_before: bool
    """It was cordoned before, and stays cordoned afterwards."""
    back: bool = False
    """It did not come up in its new shape and goes back to the old one."""

    def as_text(self) -> str:
        return json.dumps({"cordonedBefore": self.cordoned_before, "back": self.back})


@dataclass(frozen=True, slots=True)
class LiveNode:
    """One node of the pool as it is now."""

    name: str
    ready: bool
    cordoned: bool
    mark: Mark | None
    plugin: str
    mig: str | None
    mig_state: str | None
    """pending, rebooting, success or failed; None before the MIG manager has acted."""
    slices: Mapping[str, int]
    machine: str | None
    jobs: tuple[GpuPod, ...] = ()

    @property
    def down(self) -> bool:
        """Takes no new jobs, for whatever reason."""
        return self.cordoned or not self.ready

    def has_labels_of(self, shape: Shape) -> bool:
        """Whether the steering labels are those of `shape`."""
        return (self.plugin, self.mig) == (shape.plugin, shape.mig)

    def shape(self) -> Shape:
        """The node as it is, as a shape to come back to."""
        return Shape(self.plugin, self.mig, dict(self.slices))


def wanted(pool: Pool, machine: str | None) -> Shape:
    """What the plan says a node of that instance type offers."""
    return Shape(pool.name, pool.mig_config, asked(pool, machine))


def read_node(body: Mapping[str, Any], pods: Iterable[Mapping[str, Any]], now: datetime) -> LiveNode:
    """A Node object, with the pods that are bound to it."""
    meta = body["metadata"]
    labels = meta.get("labels") or {}
    mig = labels.get(MIG_LABEL)
    jobs = (_job(pod, now) for pod in pods)
    return LiveNode(
        name=meta["name"],
        ready=is_ready(body),
        cordoned=bool((body.get("spec") or {}).get("unschedulable")),
        mark=mark_of(body),
        plugin=labels.get(PLUGIN_LABEL, ""),
        mig=None if mig in (None, "", NO_LAYOUT) else mig,
        mig_state=labels.get(MIG_STATE_LABEL) or None,
        slices=dict(sorted(offered(body).items())),
        machine=labels.get(INSTANCE_TYPE_LABEL),
        jobs=tuple(job for job in jobs if job is not None),
    )


def mark_of(body: Mapping[str, Any]) -> Mark | None:
    """The note on a Node object; None where it is not being worked on."""
    text = (body["metadata"].get("annotations") or {}).get(MARK)
    if text is None:
        return None
    try:
        value = json.loads(text)
        return Mark(bool(value["cordonedBefore"]), bool(value["back"]))
    except (ValueError, KeyError, TypeError):
        # Damaged by hand: still ours, and the safest is to leave the node unchanged.
        return Mark(cordoned_before=False)


def _job(pod: Mapping[str, Any], now: datetime) -> GpuPod | None:
    """The pod as a job; None where it holds no GPU, has ended, or belongs to a DaemonSet, which stays."""
    if not is_gpu_job(pod):
        return None
    meta, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    deadline, started = spec.get("activeDeadlineSeconds"), status.get("startTime")
    remaining = None
    if deadline is not None and started:
        since = datetime.fromisoformat(started.replace("Z", "+00:00")).astimezone(UTC)
        remaining = max(0.0, deadline - (now - since).total_seconds())
    grace = spec.get("terminationGracePeriodSeconds", 30)
    return GpuPod(meta["namespace"], meta["name"], int(grace), bool(meta.get("deletionTimestamp")), remaining)
