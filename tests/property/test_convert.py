"""Conversion as properties: what gpupool generates converts back to the same pools, nothing vanishes
unsaid, and no input is a crash."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conversion.convert import Conversion, convert
from conversion.documents import parse_documents
from conversion.draft import Choices
from generators import generate
from generators.emit import documents as yaml_documents
from generators.emit import yaml_text
from gpupool.load import check_shape
from gpupool.plan import Plan, Pool
from gpupool.resolve import resolve
from gpupool.yaml_source import parse_source
from tests.environment_strategies import Data, environments, plan_of


def converted(text: str, choices: Choices | None = None) -> Conversion:
    documents, findings = parse_documents("input.yaml", text.encode())
    assert not findings
    return convert(documents, choices or Choices())


def plan_from(text: str) -> Plan:
    return resolve(check_shape(parse_source("random.yaml", text.encode())))


def generated(plan: Plan) -> str:
    """Everything that is generated, as one file, but for the policies, which are large and never change; the
    operator's Helm values are among it."""
    bundle = generate(plan)
    objects = [m.body for m in bundle.manifests if m.kind != "ValidatingAdmissionPolicy"]
    values = [release.values for release in bundle.releases if release.name == "gpu-operator"]
    return "---\n".join([yaml_documents(objects), *map(yaml_text, values)])


def seen(pool: Pool) -> Any:
    """What of a pool a cluster can show: all but prose, and a share that two numbers of nodes stand for."""
    return (
        *(pool.name, pool.gpu.key, pool.sharing, pool.machines, pool.capacities, pool.nodes_max, pool.warm),
        *(pool.zones, pool.consolidate_after, pool.expire_after, dict(pool.labels), pool.taints),
        *(pool.max_unavailable, pool.window, pool.image, pool.node_names),
    )


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_generated_objects_convert_to_the_same_pools(data: st.DataObject) -> None:
    platform = data.draw(st.sampled_from(("eks", "local")))
    environment: Data = data.draw(environments(platform))
    environment["gpuOperator"]["install"] = True
    plan = plan_of(environment)
    result = converted(generated(plan), Choices(name="random", region="us-east-1", cluster="ml"))
    assert result.platform == platform or not plan.pools
    assert not [str(entry) for entry in result.leftovers if entry.kind != "assumed"]
    again = plan_from(result.text)
    assert [seen(pool) for pool in sorted(again.pools, key=lambda p: p.name)] == [
        seen(pool) for pool in sorted(plan.pools, key=lambda p: p.name)
    ]
    assert [(p.name, p.value, p.preempts) for p in again.priorities] == [
        (p.name, p.value, p.preempts) for p in plan.priorities
    ]
    assert {t.name: (dict(t.quota), t.max_priority) for t in again.tenants} == {
        t.name: (dict(t.quota), t.max_priority) for t in plan.tenants
    }
    assert again.gpu_operator == plan.gpu_operator
