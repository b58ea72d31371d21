"""What looks like a fault and is none is left alone."""

from __future__ import annotations

import pytest

from gpupool.policy.rules import EXTERNAL
from tests.policy.rules.changes import (
    REACHES,
    TENANT,
    Change,
    admission_policy,
    config_map,
    imaged,
    policy_binding,
    pool_affinity,
    promise,
    put,
    reading,
    replan,
    selecting,
    slice_up,
)
from tests.policy.rules.drafts import job, shipped

GOOD: dict[str, tuple[str, Change]] = {
    "objects-of-one-name-in-two-groups": (
        "prod",
        lambda d: d.bodies.append(
            {"apiVersion": "example.org/v1", "kind": "NodePool", "metadata": {"name": "notebooks"}}
        ),
    ),
    "namespaces-of-every-cluster": ("prod", lambda d: d.bodies.append(job("kube-system"))),
    "priorities-of-every-cluster": (
        "prod",
        lambda d: d.bodies.append(job(TENANT, priorityClassName="system-node-critical")),
    ),
    "default-account": ("prod", lambda d: d.bodies.append(job(TENANT, serviceAccountName="default"))),
    "account-that-the-environment-names": (
        "prod",
        lambda d: d.bodies.append(job(TENANT, serviceAccountName="pipelines")),
    ),
    "optional-config": (
        "prod",
        lambda d: d.bodies.append(job(TENANT, **reading("ConfigMap", "s", key="k", optional=True))),
    ),
    "config-with-its-key": (
        "prod",
        lambda d: d.bodies.extend(
            [job(TENANT, **reading("ConfigMap", "s", key="k")), config_map("s", k="1")]
        ),
    ),
    "secret-that-a-controller-makes": (
        "prod",
        lambda d: d.bodies.extend(
            [
                job(TENANT, **reading("Secret", "s", key="k")),
                {
                    "apiVersion": "external-secrets.io/v1",
                    "kind": "ExternalSecret",
                    "metadata": {"name": "x", "namespace": TENANT},
                    "spec": {"target": {"name": "s"}},
                },
            ]
        ),
    ),
    "declared-elsewhere": (
        "prod",
        lambda d: d.bodies.append(
            job(TENANT, **reading("Secret", "s", key="k"), priorityClassName="urgent")
            | {
                "metadata": {
                    "name": "try",
                    "namespace": TENANT,
                    "annotations": {EXTERNAL: "Secret team-vision/s, PriorityClass urgent"},
                }
            }
        ),
    ),
    "policy-with-its-parameters": (
        "prod",
        lambda d: d.bodies.extend([policy_binding("p"), admission_policy("p"), config_map("limits")]),
    ),
    "selector-of-pods-that-are-there": (
        "prod",
        lambda d: d.bodies.append(selecting("Service", {"gpupool.dev/warm": "notebooks"})),
    ),
    "pod-that-tolerates-one-pool-of-two": (
        "prod",
        lambda d: d.bodies.append(
            job(TENANT, affinity=pool_affinity("training-h100", "notebooks"), tolerations=[REACHES])
        ),
    ),
    "preferred-taint": (
        "prod",
        lambda d: d.bodies.append(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": "n"},
                "spec": {"taints": [{"key": "slow", "effect": "PreferNoSchedule"}]},
            }
        ),
    ),
    "operator-that-tolerates-all": (
        "prod",
        lambda d: put(d.values("gpu-operator"), "daemonsets", "tolerations", [{"operator": "Exists"}]),
    ),
    "pools-promised-four-times": ("prod", lambda d: promise(d, 4)),
    "slices-of-512-mib": ("prod", lambda d: slice_up(d, 32)),
    "moving-image-under-work-that-gives-way": (
        "dev",
        lambda d: imaged(d, "al2023@latest", max_priority="research"),
    ),
    "ceiling-that-is-just-kept": ("prod", lambda d: replan(d, monthly_usd_max=525000)),
    "lower-quota-beside-the-tenant's": (
        "dev",
        lambda d: d.bodies.append(
            {
                "apiVersion": "v1",
                "kind": "ResourceQuota",
                "metadata": {"name": "pods", "namespace": "team-platform"},
                "spec": {"hard": {"pods": "50"}},
            }
        ),
    ),
}


@pytest.mark.parametrize("case", GOOD)
def test_what_is_right_is_left_alone(case: str) -> None:
    name, change = GOOD[case]
    draft = shipped(name)
    change(draft)
    found = draft.findings()
    rule = {
        "pools-promised-four-times": "pools-not-oversubscribed",
        "slices-of-512-mib": "slices-have-memory",
        "moving-image-under-work-that-gives-way": "machine-images-pinned",
    }.get(case)
    if rule:  # the change alone breaks others
        found = [finding for finding in found if finding.rule == rule]
    assert found == []
