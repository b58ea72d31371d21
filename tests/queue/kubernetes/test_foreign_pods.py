"""What other pods hold of a pool, for whatever pods and nodes there are."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gpupool.environment.plan.model import POOL_LABEL
from gpupool.queue.kubernetes.foreign_pods import foreign_pods
from gpupool.queue.kubernetes.job_manifest import CAPACITY_TYPE
from tests.queue.roles.running import SOURCE

CURRENT = SOURCE.current
POOLS = CURRENT.supply.pools
NAMES = [f"n{number}" for number in range(6)]
RESOURCES = sorted({resource for pool in POOLS.values() for resource in pool.gpu_micro})
Object = dict[str, Any]


@st.composite
def nodes(draw: st.DrawFn) -> dict[str, Object]:
    """Some of the names; of pools of the Plan, and of others."""
    found = {}
    for name in draw(st.sets(st.sampled_from(NAMES))):
        labels = {POOL_LABEL: draw(st.sampled_from([*POOLS, "unknown"]))}
        if type := draw(st.sampled_from(["spot", "on-demand", None])):
            labels[CAPACITY_TYPE] = type
        found[name] = {"metadata": {"name": name, "labels": labels}}
    return found


limits = st.dictionaries(st.sampled_from(RESOURCES), st.integers(0, 40).map(str), max_size=2)
pods = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {"namespace": st.sampled_from(["team-vision", "team-serving", "default"])}
        ),
        "spec": st.fixed_dictionaries(
            {
                "nodeName": st.sampled_from(NAMES),
                "containers": st.lists(
                    st.fixed_dictionaries({"resources": st.fixed_dictionaries({"limits": limits})}),
                    max_size=2,
                ),
            }
        ),
    }
)


@given(st.lists(pods, max_size=8), nodes())
def test_what_pods_hold_is_counted_once_on_a_node_of_the_pool(
    pods: list[Object], nodes: dict[str, Object]
) -> None:
    found = foreign_pods(pods, nodes, CURRENT.plan, CURRENT.supply)
    tenants = {tenant.namespace: tenant.name for tenant in CURRENT.plan.tenants}
    expected: Counter[tuple[str, str, str]] = Counter()
    for pod in pods:
        node = nodes.get(pod["spec"]["nodeName"])
        pool = POOLS.get(node["metadata"]["labels"][POOL_LABEL]) if node else None
        for container in pod["spec"]["containers"] if pool else ():
            for resource, units in container["resources"]["limits"].items():
                if resource in pool.gpu_micro:
                    namespace = pod["metadata"]["namespace"]
                    expected[pool.name, resource, tenants.get(namespace, namespace)] += int(units)
    held: Counter[tuple[str, str, str]] = Counter()
    for one in found:
        assert one.units > 0
        assert one.gpu_micro == one.units * POOLS[one.pool].gpu_micro[one.resource]
        assert one.capacity_type == POOLS[one.pool].nodes[one.node].capacity_type
        assert POOLS[one.pool].nodes[one.node].number == one.node
        held[one.pool, one.resource, one.tenant] += one.units
    assert held == +expected
    places = [(one.pool, one.resource, one.node, one.tenant) for one in found]
    assert len(places) == len(set(places)), "the table has one row for each"


@given(st.lists(pods, max_size=8), nodes())
def test_nodes_of_a_pool_are_kept_apart_while_it_may_have_so_many(
    pods: list[Object], nodes: dict[str, Object]
) -> None:
    found = foreign_pods(pods, nodes, CURRENT.plan, CURRENT.supply)
    for pool in POOLS.values():
        used = {
            pod["spec"]["nodeName"]
            for pod in pods
            if pod["spec"]["nodeName"] in nodes
            and nodes[pod["spec"]["nodeName"]]["metadata"]["labels"][POOL_LABEL] == pool.name
            and any(
                resource in pool.gpu_micro and units != "0"
                for container in pod["spec"]["containers"]
                for resource, units in container["resources"]["limits"].items()
            )
        }
        if len(used) <= len(pool.nodes):
            assert len({one.node for one in found if one.pool == pool.name}) == len(used)
