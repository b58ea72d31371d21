"""Karpenter itself takes every NodePool and NodeOverlay that an environment may amount to.

What an API server with the CRDs can't see, Karpenter judges when it reads an object (1.14.1, RuntimeValidate
of NodePools and NodeOverlays), and says so in the object's conditions. The local control plane has kwok's
provider, which leaves pools of other providers' classes alone, so that pools of EC2NodeClasses are given its
class; nothing that is validated depends on it.
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

from hypothesis import HealthCheck, given, settings

from gpupool.environment.plan.model import Plan
from gpupool.generators import generate
from tests.conftest import FIGURE
from tests.environment_combinations import LEGAL, environment_of
from tests.environment_files import Data, plan_of
from tests.environment_strategies import environments

Object = dict[str, Any]
ACCEPTED = {"NodePool": "ValidationSucceeded", "NodeOverlay": "ValidationSucceeded"}
"""Kind -> the condition of it that is True once Karpenter has accepted it."""
CLASS = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
_NODE_POOL = "karpenter.sh/nodepool"
RANDOM = 60


def judged(plan: Plan, prefix: str = "") -> list[Object]:
    """What Karpenter judges of a plan, names after `prefix`."""
    found = []
    for manifest in generate(plan):
        if manifest.kind in ACCEPTED:
            body = copy.deepcopy(dict(manifest.body))
            body["metadata"]["name"] = prefix + manifest.name
            for row in body["spec"].get("requirements", ()):
                if row["key"] == _NODE_POOL:
                    row["values"] = [prefix + name for name in row["values"]]
            if manifest.kind == "NodePool":
                body["spec"]["template"]["spec"]["nodeClassRef"] = CLASS
            found.append(body)
    return found


def apply(cluster: Any, bodies: Iterable[Object]) -> None:
    """NodePools first: each overlay is judged with those that are there."""
    name = {"name": CLASS["name"]}
    cluster.apply({"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": CLASS["kind"], "metadata": name})
    cluster.apply(*sorted(bodies, key=lambda body: body["kind"] != "NodePool"))


def answer(cluster: Any, body: Object) -> str:
    """`True`, or `False` and why, once Karpenter has judged the object."""
    kind, name = body["kind"], body["metadata"]["name"]

    def condition() -> Object:
        rows = cluster.get(body["apiVersion"], kind, name).get("status", {}).get("conditions", ())
        return next(
            (row for row in rows if row["type"] == ACCEPTED[kind] and row["status"] in ("True", "False")), {}
        )

    row = cluster.wait(f"Karpenter has judged {kind} {name}", condition)
    return "True" if row["status"] == "True" else f"False: {row.get('message', '')}"


def hold(cluster: Any, bodies: Iterable[Object]) -> Counter[str]:
    """Apply them all; Karpenter accepts each. How many there are of each kind."""
    distinct = {json.dumps(body, sort_keys=True): body for body in bodies}
    names = Counter((body["kind"], body["metadata"]["name"]) for body in distinct.values())
    assert max(names.values(), default=1) == 1, names.most_common(3)
    apply(cluster, distinct.values())
    answers = {
        f"{body['kind']} {body['metadata']['name']}": answer(cluster, body) for body in distinct.values()
    }
    assert {name: text for name, text in answers.items() if text != "True"} == {}
    return Counter(body["kind"] for body in distinct.values())


def test_karpenter_takes_every_combination(cluster: Any, record_property: Any) -> None:
    combinations = [it for it in LEGAL if "karpenter" in it.kinds]
    # Delivery, operator and queue are in no object of Karpenter's.
    seen = {(it.sharing, it.capacity, it.kinds): it for it in combinations}
    bodies = [body for it in seen.values() for body in judged(plan_of(environment_of(it)))]
    counted = hold(cluster, bodies)
    kinds = " and ".join(f"{count} {kind}s" for kind, count in sorted(counted.items()))
    number = len(combinations)
    record_property(FIGURE, f"combinations that Karpenter takes: {number} of {number} ({kinds})")


def test_karpenter_takes_random_pools(cluster: Any, record_property: Any) -> None:
    bodies: list[Object] = []

    @settings(max_examples=RANDOM, suppress_health_check=list(HealthCheck))
    @given(environments())
    def draw(environment: Data) -> None:
        bodies.extend(judged(plan_of(environment), f"e{len(bodies)}-"))

    draw()
    counted = hold(cluster, bodies)
    kinds = " and ".join(f"{count} {kind}s" for kind, count in sorted(counted.items()))
    record_property(FIGURE, f"of random environments Karpenter takes: {kinds}")


def test_karpenter_refuses_what_contradicts_itself(cluster: Any) -> None:
    """So that all this can fail: two overlays of one weight for the same machines."""
    combination = next(it for it in LEGAL if it.sharing == "mig" and it.capacity == "on-demand")
    bodies = judged(plan_of(environment_of(combination)))
    (overlay,) = [body for body in bodies if body["kind"] == "NodeOverlay"]
    twin = copy.deepcopy(overlay)
    twin["metadata"]["name"] = "twin"
    twin["spec"]["capacity"] = {"nvidia.com/mig-3g.40gb": "9"}
    apply(cluster, [*bodies, twin])

    def refused() -> bool:
        return any(answer(cluster, body) != "True" for body in (overlay, twin))

    cluster.wait("Karpenter refuses one of the two", refused)
