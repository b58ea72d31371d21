"""Karpenter's rule of what replaces a node, change by change.

The hashed fields are those of Karpenter v1.14.1 (pkg/apis/v1/nodepool.go, nodeclaim.go) and of its AWS
provider v1.14.1 (pkg/apis/v1/ec2nodeclass.go).
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from gpupool.review.report.effects.drift import node_class_drifts, node_pool_drifts

POOL: dict[str, Any] = {
    "spec": {
        "weight": 10,
        "limits": {"nodes": "4"},
        "disruption": {"consolidateAfter": "10m", "budgets": [{"nodes": "1"}]},
        "template": {
            "metadata": {"labels": {"team": "a", "gpupool.dev/pool": "p"}},
            "spec": {
                "nodeClassRef": {"kind": "EC2NodeClass", "name": "p"},
                "requirements": [
                    {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["a", "b"]},
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                ],
                "taints": [{"key": "x", "effect": "NoSchedule"}, {"key": "y", "effect": "NoSchedule"}],
                "expireAfter": "Never",
            },
        },
    }
}
_TERMS = "capacityReservationSelectorTerms"
CLASS: dict[str, Any] = {
    "spec": {
        "role": "nodes",
        "amiSelectorTerms": [{"alias": "al2023@v1"}],
        "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "a"}}],
        "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "a"}}],
        "tags": {"gpupool.dev/environment": "prod"},
        _TERMS: [{"id": "cr-1"}],
    }
}
Edit = Callable[[dict[str, Any]], None]


def template(edit: Edit) -> Edit:
    return lambda body: edit(body["spec"]["template"])


def zones(body: dict[str, Any]) -> None:
    wanted = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["1a"]}
    body["spec"]["template"]["spec"]["requirements"].append(wanted)


def types(*names: str) -> Edit:
    return template(lambda t: t["spec"]["requirements"][0].update(values=list(names)))


NODE_POOL = {
    "nothing": (lambda _: None, []),
    "label added": (template(lambda t: t["metadata"]["labels"].update(new="")), ["all"]),
    "label changed": (template(lambda t: t["metadata"]["labels"].update(team="b")), ["all"]),
    "label removed": (template(lambda t: t["metadata"]["labels"].pop("team")), ["all"]),
    "annotation added": (template(lambda t: t["metadata"].update(annotations={"a": "b"})), ["all"]),
    "taint removed": (template(lambda t: t["spec"]["taints"].pop()), ["all"]),
    "all taints removed": (template(lambda t: t["spec"].update(taints=[])), ["all"]),
    "taints in another order": (template(lambda t: t["spec"]["taints"].reverse()), []),
    "expireAfter": (template(lambda t: t["spec"].update(expireAfter="720h")), ["all"]),
    "terminationGracePeriod": (template(lambda t: t["spec"].update(terminationGracePeriod="1h")), ["all"]),
    "class": (template(lambda t: t["spec"]["nodeClassRef"].update(name="q")), ["all"]),
    "type added": (types("a", "b", "c"), []),
    "types in another order": (types("b", "a"), []),
    "type removed": (types("a"), ["some"]),
    "other types": (types("c"), ["all"]),
    "first zones": (zones, ["some"]),
    "no taints at all": (template(lambda t: t["spec"].pop("taints")), ["all"]),
    "consolidateAfter": (lambda b: b["spec"]["disruption"].update(consolidateAfter="1h"), []),
    "budgets": (lambda b: b["spec"]["disruption"].update(budgets=[]), []),
    "limits": (lambda b: b["spec"].update(limits={"nodes": "1"}), []),
    "weight": (lambda b: b["spec"].update(weight=1), []),
}
NODE_CLASS = {
    "nothing": (lambda _: None, []),
    "role": (lambda b: b["spec"].update(role="others"), ["all"]),
    "tags": (lambda b: b["spec"]["tags"].update({"gpupool.dev/environment": "dev"}), ["all"]),
    "userData": (lambda b: b["spec"].update(userData="#!/bin/bash"), ["all"]),
    "image version": (lambda b: b["spec"].update(amiSelectorTerms=[{"alias": "al2023@v2"}]), ["unknown"]),
    "image family": (
        lambda b: b["spec"].update(amiSelectorTerms=[{"alias": "bottlerocket@v1"}]),
        ["all", "unknown"],
    ),
    "family spelt out": (lambda b: b["spec"].update(amiFamily="AL2023"), []),
    "subnets": (
        lambda b: b["spec"].update(subnetSelectorTerms=[{"tags": {"karpenter.sh/discovery": "b"}}]),
        ["unknown"],
    ),
    "subnets and security groups": (
        lambda b: b["spec"].update(
            subnetSelectorTerms=[{"id": "subnet-1"}], securityGroupSelectorTerms=[{"id": "sg-1"}]
        ),
        ["unknown", "unknown"],
    ),
    "a reservation more": (lambda b: b["spec"][_TERMS].append({"id": "cr-2"}), []),
    "a reservation less": (lambda b: b["spec"].pop(_TERMS), ["some"]),
}


@pytest.mark.parametrize("name", NODE_POOL)
def test_node_pool(name: str) -> None:
    edit, expected = NODE_POOL[name]
    after = copy.deepcopy(POOL)
    edit(after)
    assert [drift.which for drift in node_pool_drifts(POOL, after)] == expected


@pytest.mark.parametrize("name", NODE_CLASS)
def test_node_class(name: str) -> None:
    edit, expected = NODE_CLASS[name]
    after = copy.deepcopy(CLASS)
    edit(after)
    assert [drift.which for drift in node_class_drifts(CLASS, after)] == expected


def test_reasons_name_what_changes() -> None:
    after = copy.deepcopy(POOL)
    after["spec"]["template"]["metadata"]["labels"]["team"] = "b"
    after["spec"]["template"]["spec"]["requirements"][0]["values"] = ["b"]
    label, types_ = node_pool_drifts(POOL, after)
    assert label.reason == "label team changes from a to b"
    assert (types_.reason, types_.only) == ("instance type a is no longer allowed", "with instance type a")
