"""Every serving node offers the slices that the plan promises, and if not: why.

One row for a node: a wrong label is reported, and not its consequences.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpupool.environment.plan.operator_releases import driver_problems
from gpupool.live.cluster.live_objects import STEERING, offered
from gpupool.live.cluster.snapshot import labels
from gpupool.live.drift import cloud_sharing, repair
from gpupool.live.drift.drift import Drift
from gpupool.live.drift.drift_input import DriftInput
from gpupool.live.drift.operator_view import DRIVER, OperatorView
from gpupool.live.drift.pool_nodes import Phase, PoolNode
from gpupool.live.drift.prepared_configs import label_repair
from gpupool.live.drift.reasons import UnmetNode, likeliest, mig_failed, operand_off
from gpupool.live.objects.owner import FIELD_MANAGER
from gpupool.live.objects.ownership import Ownership


def check(inputs: DriftInput) -> Iterator[Drift]:
    """Steering labels, driver and slices of the pools' serving nodes."""
    if not inputs.plan.uses_gpu_operator:
        yield from cloud_sharing.check(inputs)
        return
    view = OperatorView(inputs)
    for row in inputs.nodes:
        if row.phase is Phase.serving and row.machine is not None:
            wrong = [*_steering(inputs, view, row), *_driver(inputs, view, row)]
            yield from wrong
            if not wrong:
                yield from _slices(UnmetNode(inputs, view, row, row.machine, offered(row.node)))


def _slices(case: UnmetNode) -> Iterator[Drift]:
    same = case.found == dict(case.wanted)
    cause = (mig_failed(case) or operand_off(case)) if same else likeliest(case)
    if cause is not None:
        reason = f"it offers {counts(case.found)}, planned are {counts(case.wanted)}: " if not same else ""
        yield Drift(
            layer="slices",
            code=cause.kind,
            object=f"Node {case.row.name}",
            path="status.allocatable",
            wanted=dict(case.wanted),
            found=dict(case.found),
            what=f"{reason}{cause.why} (pool {case.row.pool.name})",
            remediation=cause.remediation,
            category=cause.category,
        )


def _steering(inputs: DriftInput, view: OperatorView, row: PoolNode) -> Iterator[Drift]:
    """The labels by which a node's device plugin and MIG manager choose their configuration."""
    have, owners = labels(row.node), Ownership(row.node)
    for key in STEERING:
        value, found = row.pool.labels.get(key), have.get(key)
        if value is None or found == value:
            continue
        by, _ = owners.of(("metadata", "labels", key), FIELD_MANAGER) if found is not None else ("", "")
        reason = f'the label {key} says "{found}"' if found is not None else f"it has no label {key}"
        what = "device plugin" if key == STEERING[0] else "MIG manager"
        yield Drift(
            layer="slices",
            code="wrong-config-key",
            object=f"Node {row.name}",
            path=f"metadata.labels[{key}]",
            wanted=value,
            found=found,
            by=by,
            what=f'{reason}, the {what} is to use "{value}"'
            + (f"; set by {by}" if by else "")
            + f" (pool {row.pool.name})"
            + inputs.from_group(row.pool),
            remediation=label_repair(inputs, view, row, key),
        )


def _driver(inputs: DriftInput, view: OperatorView, row: PoolNode) -> Iterator[Drift]:
    """The driver that feature discovery found, against what the GPU and its sharing need."""
    version = labels(row.node).get(DRIVER)
    problems = driver_problems(version, row.pool.gpu, row.pool.sharing) if version else []
    for problem in problems[-1:]:  # the last one needs the newest driver
        live, planned = view.setting("driver", "version"), inputs.plan.gpu_operator.driver.version
        in_file = (
            f"set gpuOperator.driver.version in the file, then {inputs.apply(parts=inputs.policy_parts)}"
        )
        yield Drift(
            layer="slices",
            code="driver-too-old",
            object=f"Node {row.name}",
            path=f"metadata.labels[{DRIVER}]",
            found=version,
            what=f"{problem.message}; {problem.remediation} (pool {row.pool.name})",
            remediation=in_file if live == planned else _driver_back(inputs, view, planned),
        )


def _driver_back(inputs: DriftInput, view: OperatorView, planned: str | None) -> str:
    """The version was set in the cluster: back to the file's, or to the release's own where it sets none."""
    if planned is not None or view.policy is None:
        return inputs.restore(*inputs.policy_parts)
    return repair.remove_field("ClusterPolicy", view.policy_name, None, ("spec", "driver", "version"))


def counts(found: Mapping[str, int]) -> str:
    """Resources as people read them: 24 gpu, or nothing."""
    return (
        ", ".join(f"{n} {name.removeprefix('nvidia.com/')}" for name, n in sorted(found.items())) or "nothing"
    )
