"""Faults of numbers: priorities, quotas, slices and money. One list per rule."""

from __future__ import annotations

import copy

from tests.policy.rules.changes import (
    TEMPLATE,
    Change,
    edit,
    heavier_overlay,
    imaged,
    priority_class,
    promise,
    put,
    replan,
    slice_up,
    unpriced,
)

COUNTING: dict[str, list[tuple[str, Change, str, str]]] = {
    # rule: environment, change, part of the object and path, part of the message
    "priorities-differ": [
        (
            "prod",
            lambda d: d.bodies.append(priority_class("other", 100)),
            "PriorityClass other value",
            "as research",
        ),
    ],
    "one-default-priority": [
        (
            "prod",
            lambda d: d.bodies.extend(priority_class(f"d{n}", -20 - n, globalDefault=True) for n in (1, 2)),
            "PriorityClass d2 globalDefault",
            "as is d1",
        ),
    ],
    "priorities-as-planned": [
        (
            "prod",
            lambda d: d.drop("PriorityClass", "batch"),
            "priorities batch",
            "PriorityClass batch is missing",
        ),
        ("prod", lambda d: put(d.one("PriorityClass", "training"), "value", 50), "training value", "is 50"),
        (
            "prod",
            lambda d: d.drop("PriorityClass", "production-inference-queued"),
            "priorities production-inference-queued",
            "PriorityClass production-inference-queued is missing",
        ),
        (
            "prod",
            lambda d: d.one("PriorityClass", "training").pop("preemptionPolicy"),
            "preemption",
            "may push",
        ),
    ],
    "tenant-priorities-bounded": [
        ("prod", lambda d: d.bodies.append(priority_class("vip", 5000)), "Namespace team-", "forbids vip"),
        (
            "prod",
            lambda d: d.drop("ResourceQuota", "gpupool-priorities"),
            "Namespace team-",
            "up to batch, but no quota of namespace 'team-analytics' forbids production-inference, "
            "production-inference-queued, production-inference-queued.",
        ),
    ],
    "tenants-have-quotas": [
        ("dev", lambda d: d.drop("ResourceQuota", "gpupool"), "Namespace team-platform", "has no quota"),
        (
            "dev",
            lambda d: d.one("ResourceQuota", "gpupool")["spec"]["hard"].pop("requests.nvidia.com/gpu"),
            "Namespace team-platform",
            "names nvidia.com/gpu",
        ),
        (
            "dev",
            lambda d: put(d.one("ResourceQuota", "gpupool"), "spec", "scopes", ["NotTerminating"]),
            "Namespace team-platform",
            "has no quota",
        ),
        (
            "local",
            lambda d: d.drop("ResourceQuota", "gpupool-granted"),
            "Namespace team-",
            "of pods that do not borrow",
        ),
    ],
    "pools-have-quotas": [
        (
            "dev",
            lambda d: d.drop("ResourceQuota", "gpupool.notebooks"),
            "Namespace team-platform",
            "counts nvidia.com/gpu of the PriorityClasses of pool 'notebooks'",
        ),
        (
            "dev",
            lambda d: d.one("ResourceQuota", "gpupool.notebooks")["spec"].pop("scopeSelector"),
            "ResourceQuota team-platform/gpupool.notebooks",
            "they count against grants on other pools",
        ),
    ],
    "quotas-as-granted": [
        (
            "dev",
            lambda d: put(d.one("ResourceQuota", "gpupool"), "spec", "hard", "requests.nvidia.com/gpu", "17"),
            "spec.hard[requests.nvidia.com/gpu]",
            "allows 17 x nvidia.com/gpu; tenant 'platform' is granted 18",
        ),
    ],
    "quotas-within-capacity": [
        (
            "dev",
            lambda d: put(d.one("ResourceQuota", "gpupool"), "spec", "hard", "requests.nvidia.com/gpu", "1k"),
            "ResourceQuota team-platform/gpupool spec.hard[requests.nvidia.com/gpu]",
            "allows 1000 x nvidia.com/gpu; all pools together have 24",
        ),
    ],
    "pools-not-oversubscribed": [
        ("prod", lambda d: promise(d, 5), "pool notebooks", "add up to 50: 5.0 times"),
    ],
    "pool-counts-agree": [
        (
            "prod",
            lambda d: edit(d, "gpupool-device", "notebooks", "8", "9"),
            "NodeOverlay",
            "has 9 x nvidia.com",
        ),
        (
            "prod",
            lambda d: put(d.one("NodeOverlay", "batch-l4.4gpu"), "spec", "capacity", "nvidia.com/gpu", "12"),
            "NodeOverlay batch-l4.4gpu spec.capacity[nvidia.com/gpu]",
            "a g6.12xlarge of batch-l4 has 16 x nvidia.com/gpu (4 GPUs); to Karpenter batch-l4.4gpu says 12",
        ),
        (
            "prod",
            lambda d: d.drop("NodeOverlay", "research-a100"),
            "NodePool research-a100",
            "no NodeOverlay says so",
        ),
        (
            "prod",
            lambda d: d.one("NodeOverlay", "inference-small")["spec"]["capacity"].pop("nvidia.com/gpu"),
            "spec.capacity[nvidia.com/gpu]",
            "has 0 x nvidia.com/gpu (8 GPUs); to Karpenter inference-small says 8",
        ),
        (
            "prod",
            lambda d: edit(d, "gpupool-mig", "config.yaml", '"2g.20gb": 2', '"2g.20gb": 1'),
            "NodePool inference-h100 spec.template.metadata.labels",
            "8 x nvidia.com/mig-2g.20gb; the plan counts on 8 x nvidia.com/mig-3g.40gb, 16 x",
        ),
        (
            "prod",
            lambda d: edit(d, "gpupool-device", "inference-h100", "mixed", "none"),
            "inference",
            "will have 0",
        ),
        (
            "prod",
            lambda d: put(d.one("NodePool", "notebooks"), "spec", "limits", "nodes", "20"),
            "NodePool notebooks spec.limits[nvidia.com/gpu]",
            "limited to 80 x nvidia.com/gpu; its 20 nodes have 160",
        ),
        (
            "prod",
            lambda d: d.bodies.append(heavier_overlay(d.one("NodeOverlay", "notebooks"))),
            "NodeOverlay heavier",
            "to Karpenter heavier says 1",
        ),
    ],
    "pools-as-planned": [
        (
            "prod",
            lambda d: d.drop("NodePool", "training-h100"),
            "pool training-h100",
            "no NodePool 'training-h100'",
        ),
        ("homelab", lambda d: d.drop("Node", "k3s-gpu-0"), "pool desk", "neither its labels nor its taints"),
        (
            "homelab",
            lambda d: d.one("Node")["metadata"]["labels"].pop("workload-type"),
            "labels[work",
            "is missing",
        ),
        (
            "prod",
            lambda d: put(d.one("NodePool", "training-h100"), "spec", "limits", {"nodes": "8"}),
            "spec.limits[nvidia.com/gpu]",
            "missing, planned 64",
        ),
        (
            "prod",
            lambda d: put(d.one("NodePool", "notebooks"), *TEMPLATE, "spec", "taints", []),
            "spec.template.spec.taints",
            "any pod can run",
        ),
        (
            "prod",
            lambda d: d.one("NodePool", "notebooks")["spec"]["template"]["spec"]["taints"].append(
                {"key": "x"}
            ),
            "spec.template.spec.taints[1]",
            "taint x is not planned",
        ),
        (
            "prod",
            lambda d: put(
                d.one("NodePool", "batch-l4-spot"),
                *TEMPLATE,
                "spec",
                "requirements",
                1,
                "values",
                ["on-demand"],
            ),
            "requirements",
            "starts on-demand nodes, planned spot",
        ),
        (
            "prod",
            lambda d: d.bodies.append({**copy.deepcopy(d.one("NodePool")), "metadata": {"name": "extra"}}),
            "NodePool extra",
            "that the plan does not know",
        ),
    ],
    "machine-images-pinned": [
        (
            "prod",
            lambda d: imaged(d, "al2023@latest"),
            "karpenter.amiAlias",
            "pool 'training-h100' uses al2023@latest: its nodes are replaced when AWS publishes an image, in",
        ),
        ("dev", lambda d: imaged(d, "al2023@latest"), "karpenter.amiAlias", "at any time"),
    ],
    "slices-have-memory": [
        (
            "prod",
            lambda d: slice_up(d, 33),
            "pool notebooks",
            "33 slices share the 16 GiB of one NVIDIA T4: 496",
        ),
    ],
    "cost-within-ceiling": [
        (
            "prod",
            lambda d: replan(d, monthly_usd_max=512168.07),
            "cost.monthlyUsdMax",
            "cost $512,168.08 a month",
        ),
        ("prod", unpriced, "cost.monthlyUsdMax", "there is no known price for notebooks"),
    ],
    "budgets-within-ceiling": [
        (
            "prod",
            lambda d: replan(d, monthly_usd_max=524999),
            "cost.monthlyUsdMax",
            "may spend $525,000 a month",
        ),
    ],
    "objects-within-limits": [
        (
            "prod",
            lambda d: put(d.one("ConfigMap", "gpupool-tenants"), "data", {"a": "b" * (1 << 20)}),
            "gpupool-tenants data",
            "1,048,577 bytes in data; 1,048,576 are accepted",
        ),
        (
            "prod",
            lambda d: put(d.one("Namespace", "team-vision"), "metadata", {"name": "n" * 64}),
            "metadata.name",
            "64 characters in its name; 63 are accepted",
        ),
    ],
}
