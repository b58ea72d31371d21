"""What single generators promise: budgets of a window, names made of content, overlays, roles, quotas."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupool.environment.plan.capacity import parse_window
from gpupool.environment.plan.device_classes import uncounted_devices
from gpupool.environment.plan.model import Window
from gpupool.environment.plan.priority_classes import counted_apart
from gpupool.environment.plan.resolve import read_plan
from gpupool.environment.spec.load import environment_names
from gpupool.generators import GENERATORS, generate
from gpupool.generators.kinds import KINDS
from gpupool.generators.manifest import Bundle, Manifest, bundle
from gpupool.generators.metadata import content_name
from gpupool.generators.node_pools import budgets
from tests.environment_files import Data, environment_data, plan_of
from tests.environment_strategies import windows
from tests.examples import examples

WEEK = 7 * 1440


def environment(*pools: Data, **fields: Any) -> Data:
    return environment_data("local", pools=list(pools), **fields)


def pool(**fields: Any) -> Data:
    return {"name": "p", "gpu": "t4", "nodes": {"instanceTypes": ["g4dn.xlarge"], "max": 2}, **fields}


def made(*pools: Data, **fields: Any) -> Bundle:
    return generate(plan_of(environment(*pools, **fields)))


def of_kind(given: Bundle, kind: str) -> list[Manifest]:
    return [manifest for manifest in given if manifest.kind == kind]


def closed_minutes(rows: list[dict[str, Any]]) -> set[int]:
    """Minutes of the week in which some budget of 0 holds: each cron time starts one, for its duration."""
    closed: set[int] = set()
    for row in rows:
        if row["nodes"] == "0":
            minute, hour, _, _, day = row["schedule"].split()
            start = int(day) * 1440 + int(hour) * 60 + int(minute)
            closed |= {(start + offset) % WEEK for offset in range(int(row["duration"].removesuffix("m")))}
    return closed


def open_minutes(window: Window) -> set[int]:
    """Minutes of the week in which `window` is open, from its definition."""
    return {
        (day * 1440 + window.start_minute + offset) % WEEK
        for day in window.weekdays
        for offset in range(window.minutes)
    }


@examples("environments", 60)
@given(windows())
def test_a_pool_is_frozen_exactly_when_its_window_is_closed(text: str) -> None:
    rows = budgets(plan_of(environment(pool(maintenance={"window": text}))).pools[0])
    assert closed_minutes(rows) == set(range(WEEK)) - open_minutes(parse_window(text))


def test_budgets_of_a_window() -> None:
    rows = budgets(plan_of(environment(pool(maintenance={"window": "Sat 02:00-06:00 UTC"}))).pools[0])
    assert rows[0] == {"nodes": "1", "reasons": ["Drifted", "Underutilized"]}
    assert rows[1] == {"nodes": "100%", "reasons": ["Empty"]}
    assert rows[2:] == [
        {"nodes": "0", "reasons": ["Drifted", "Underutilized"], "schedule": "0 6 * * 6", "duration": "9840m"}
    ]


def test_without_a_window_no_time_is_closed() -> None:
    rows = budgets(plan_of(environment(pool())).pools[0])
    assert not closed_minutes(rows)


def plugin_map(given: Bundle) -> str:
    return next(m.name for m in of_kind(given, "ConfigMap") if m.name.startswith("gpupool-device-plugin-"))


def test_configurations_are_named_by_their_content() -> None:
    three, four = ({"mode": "time-slicing", "replicas": count} for count in (3, 4))
    name = plugin_map(made(pool(sharing=three)))
    assert name == plugin_map(made(pool(sharing=three, description="another word")))
    assert name == plugin_map(made(pool(sharing=dict(reversed(three.items())))))
    assert name != plugin_map(made(pool(sharing=four)))
    assert name != plugin_map(made(pool(name="q", sharing=three)))


def test_the_operator_points_at_the_maps_that_exist() -> None:
    given = made(
        pool(),
        pool(
            name="m",
            gpu="a100-80gb",
            sharing={"mode": "mig", "layout": {"1g.10gb": 7}},
            nodes={"instanceTypes": ["p4de.24xlarge"], "max": 1},
        ),
    )
    (policy,) = of_kind(given, "ClusterPolicy")
    maps = [manifest for manifest in of_kind(given, "ConfigMap") if manifest.namespace == "gpu-operator"]
    names = {manifest.name for manifest in maps}
    assert {policy.body["spec"][part]["config"]["name"] for part in ("devicePlugin", "migManager")} == names


@given(st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=5))
def test_a_content_name_ignores_the_order_of_keys(content: dict[str, str]) -> None:
    name = content_name("x", content)
    assert name == content_name("x", dict(reversed(content.items())))
    assert name != content_name("x", {**content, "more than five": ""})


def test_changed_replicas_leave_the_nodes_labels_alone() -> None:
    first, second = (
        of_kind(made(pool(sharing={"mode": "time-slicing", "replicas": count})), "NodePool")[0].body["spec"][
            "template"
        ]
        for count in (3, 4)
    )
    assert first == second, "a changed template is drift, and drift replaces nodes"


def test_a_changed_layout_changes_the_nodes_labels() -> None:
    nodes = {"instanceTypes": ["p4de.24xlarge"], "max": 1}
    templates = [
        of_kind(
            made(pool(gpu="a100-80gb", nodes=nodes, sharing={"mode": "mig", "layout": layout})), "NodePool"
        )[0].body["spec"]["template"]["metadata"]["labels"]["nvidia.com/mig.config"]
        for layout in ({"1g.10gb": 7}, {"2g.20gb": 3})
    ]
    assert templates == ["7x1g.10gb", "3x2g.20gb"]


def test_one_overlay_for_each_size_of_machine() -> None:
    nodes = {
        "instanceTypes": ["g4dn.xlarge", "g4dn.2xlarge", "g4dn.12xlarge"],
        "maxGpus": 16,
        "spotShare": 0.5,
    }
    overlays = of_kind(
        made(pool(nodes=nodes, sharing={"mode": "time-slicing", "replicas": 3})), "NodeOverlay"
    )
    assert {o.name: o.body["spec"]["capacity"] for o in overlays} == {
        "p.1gpu": {"nvidia.com/gpu": "3"},
        "p.4gpu": {"nvidia.com/gpu": "12"},
    }
    chosen = {o.name: {r["key"]: r["values"] for r in o.body["spec"]["requirements"]} for o in overlays}
    assert chosen["p.1gpu"] == {
        "karpenter.sh/nodepool": ["p", "p-spot"],
        "node.kubernetes.io/instance-type": ["g4dn.xlarge", "g4dn.2xlarge"],
    }


def test_whole_gpus_need_no_overlay() -> None:
    assert not of_kind(made(pool()), "NodeOverlay")


def test_a_partitioned_node_offers_no_whole_gpu() -> None:
    nodes = {"instanceTypes": ["p4de.24xlarge"], "max": 1}
    (overlay,) = of_kind(
        made(
            pool(
                gpu="a100-80gb",
                nodes=nodes,
                sharing={"mode": "mig", "layout": {"1g.10gb+me": 1, "2g.20gb": 3}},
            )
        ),
        "NodeOverlay",
    )
    assert overlay.body["spec"]["capacity"] == {
        "nvidia.com/gpu": "0",
        "nvidia.com/mig-1g.10gb.me": "8",
        "nvidia.com/mig-2g.20gb": "24",
    }


@pytest.mark.parametrize("name", environment_names())
def test_nobody_changes_anything_in_the_whole_cluster(name: str) -> None:
    given = generate(read_plan(name))
    roles = {role.name: role.body["rules"] for role in of_kind(given, "ClusterRole")}
    everywhere = {
        binding.body["subjects"][0]["name"]: roles[binding.body["roleRef"]["name"]]
        for binding in of_kind(given, "ClusterRoleBinding")
    }
    assert set(everywhere) == {"gpupool-launcher", "gpupool-api"}
    read = {verb for rule in everywhere["gpupool-launcher"] for verb in rule["verbs"]}
    assert read == {"list", "watch"}
    assert everywhere["gpupool-api"] == [
        {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]}
    ]


@pytest.mark.parametrize("name", environment_names())
def test_no_role_reaches_what_bounds_tenants(name: str) -> None:
    given = generate(read_plan(name))
    for role in of_kind(given, "ClusterRole"):
        assert not any("*" in values for rule in role.body["rules"] for values in rule.values())
        written = {verb for rule in role.body["rules"] for verb in rule["verbs"]} - {"get", "list", "watch"}
        touched = {
            r for rule in role.body["rules"] if set(rule["verbs"]) & written for r in rule["resources"]
        }
        assert not touched & {"resourcequotas", "limitranges", "rolebindings", "nodes"}
        assert "secrets" not in touched or role.name == "gpupool-tenant"
    for binding in of_kind(given, "RoleBinding"):
        assert binding.namespace
        assert all(
            subject["name"] not in ("system:authenticated", "system:masters")
            for subject in binding.body["subjects"]
        )


def test_kinds_are_ordered_for_those_that_are_generated() -> None:
    made_of_all = [manifest for name in environment_names() for manifest in generate(read_plan(name))]
    kinds = {(manifest.kind, manifest.api_version) for manifest in made_of_all}
    assert kinds <= {(kind.name, kind.api_version) for kind in KINDS}, (
        "a kind without a place comes last, behind what may need it"
    )


def test_quotas_name_every_resource_and_grant_nothing_by_default() -> None:
    given = made(pool(), tenants=[{"name": "t", "namespace": "t"}])
    (quota,) = of_kind(given, "ResourceQuota")
    hard = quota.body["spec"]["hard"]
    assert hard == {"requests.nvidia.com/gpu": "0", **dict.fromkeys(uncounted_devices(), "0")}


def test_warm_pods_tolerate_their_pool_and_give_way_to_all() -> None:
    taints = [{"key": "a", "value": "b"}, {"key": "c", "effect": "NoExecute"}]
    given = made(pool(nodes={"instanceTypes": ["g4dn.xlarge"], "max": 2, "warm": 2}, taints=taints))
    (deployment,) = of_kind(given, "Deployment")
    template = deployment.body["spec"]["template"]["spec"]
    assert template["nodeSelector"] == {"gpupool.dev/pool": "p"}
    assert [t["key"] for t in template["tolerations"]] == ["a", "c"]
    (priority,) = of_kind(given, "PriorityClass")
    assert priority.name == template["priorityClassName"]
    assert priority.body["value"] < 0


def test_static_nodes_are_patched_and_nothing_is_started() -> None:
    static = environment(
        {"name": "desk", "gpu": "rtx-4090", "nodes": {"names": ["a", "b"]}, "labels": {"x": "no"}},
        cluster={"platform": "static", "name": "x"},
    )
    given = generate(plan_of(static))
    patched = of_kind(given, "Node")
    assert [(node.name, node.patch) for node in patched] == [("a", True), ("b", True)]
    assert patched[0].labels["x"] == "no"
    assert not {"NodePool", "NodeOverlay", "EC2NodeClass"} & {manifest.kind for manifest in given}


def test_two_objects_of_one_identity_are_refused() -> None:
    one = Manifest({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}})
    with pytest.raises(AssertionError, match="two generators emit Namespace a"):
        bundle("x", [one, one])


def test_every_generator_adds_something_somewhere() -> None:
    plans = [read_plan(name) for name in environment_names()]
    # No shipped environment runs `gpupool assert` or the queue in its cluster: images are the reader's.
    pool = {"name": "a", "gpu": "t4", "nodes": {"instanceTypes": ["g4dn.xlarge"], "max": 1}}
    asserting = {"assertion": {"image": "registry.example/gpupool:0.1.0"}}
    queue = {
        "chart": {"repository": "oci://registry.example/charts", "image": "registry.example/gpupool:0.1.0"},
        "database": {"secretRef": {"name": "queue", "key": "url"}},
    }
    plans.append(plan_of(environment(pool, monitoring=asserting)))
    cluster = {"platform": "static", "name": "x"}
    nodes = {"name": "a", "gpu": "t4", "nodes": {"names": ["n1"], "gpus": 1}}
    plans.append(plan_of(environment(nodes, cluster=cluster, queue=queue)))
    for generator in GENERATORS:
        assert any(list(generator(plan)) for plan in plans), generator.__module__


def test_nobody_uses_a_priority_above_their_own() -> None:
    plan = read_plan("prod")
    given = generate(plan)
    pools = sorted({pool for tenant in plan.tenants for pool in counted_apart(plan, tenant)})
    above = {
        quota.namespace: quota.body["spec"]["scopeSelector"]["matchExpressions"][0]["values"]
        for quota in of_kind(given, "ResourceQuota")
        if quota.name == "gpupool-priorities"
    }
    highest, more = ["production-inference", "production-inference-queued"], ["training"]
    assert above["team-vision"] == [*highest, *(f"{name}.{pool}" for pool in pools for name in highest)]
    assert above["team-analytics"] == [
        *highest,
        *more,
        *(f"{name}.{pool}" for pool in pools for name in highest + more),
    ]
    assert "team-search" not in above, "whose highest is the highest there is"


def test_pods_of_the_queue_never_preempt() -> None:
    plan = read_plan("prod")
    classes = {item.name: item.body for item in of_kind(generate(plan), "PriorityClass")}
    for priority in plan.priorities:
        own, queued = classes[priority.name], classes[priority.queue_class]
        assert (queued["value"], queued["preemptionPolicy"]) == (priority.value, "Never")
        assert (own is queued) is (own["preemptionPolicy"] == "Never")
    assert "production-inference-queued" in classes
    assert "training-queued" not in classes
