"""Every bundle rule finds its fault in a shipped environment, at its place, and nothing in it unbroken."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from policies.bundle import EXTERNAL, RULES, Bundle, check_bundle
from tests.unit.policies.bundle.drafts import SHIPPED, Draft, job, shipped

GOLDEN = Path(__file__).parents[3] / "golden" / "rendered"
TENANT = "team-vision"
REACHES = {"key": "gpupool.dev/pool", "operator": "Exists"}


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_environments_are_clean(name: str) -> None:
    assert shipped(name).findings() == []


@pytest.mark.parametrize("name", SHIPPED)
def test_rendered_folders_are_clean_without_their_plan(name: str) -> None:
    files = sorted((GOLDEN / name).rglob("*.yaml"))
    bundle = Bundle.of(name, [yaml.safe_load(file.read_text(encoding="utf-8")) for file in files])
    assert len(bundle.objects) + len(bundle.releases) == len(files)
    assert check_bundle(bundle) == []


Change = Callable[[Draft], Any]


def _again(draft: Draft) -> None:
    """The same object at another version of its group."""
    draft.bodies.append(
        {**copy.deepcopy(draft.one("NodePool", "notebooks")), "apiVersion": "karpenter.sh/v1beta1"}
    )


def _pod_spec(draft: Draft) -> Any:
    return draft.one("Deployment", "warm-notebooks")["spec"]["template"]["spec"]


def _reads(kind: str, name: str, **more: Any) -> dict[str, Any]:
    source = {"name": name, **more}
    field = "configMapKeyRef" if kind == "ConfigMap" else "secretKeyRef"
    return {"containers": [{"name": "c", "env": [{"name": "X", "valueFrom": {field: source}}]}]}


def _config_map(name: str, **data: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": TENANT},
        "data": data,
    }


def _binding(policy: str) -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "guard"},
        "spec": {"policyName": policy, "paramRef": {"name": "limits", "namespace": TENANT}},
    }


def _policy(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}},
    }


def _selecting(kind: str, selector: Any, namespace: str = "gpupool-system") -> dict[str, Any]:
    field = "podSelector" if kind == "NetworkPolicy" else "selector"
    group = {"NetworkPolicy": "networking.k8s.io/v1", "PodDisruptionBudget": "policy/v1", "Service": "v1"}
    return {
        "apiVersion": group[kind],
        "kind": kind,
        "metadata": {"name": "few", "namespace": namespace},
        "spec": {field: selector},
    }


def _priority(name: str, value: int, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        **more,
    }


def _plan(draft: Draft, **changes: Any) -> None:
    assert draft.plan is not None
    draft.plan = dataclasses.replace(draft.plan, **changes)


def _promise(draft: Draft, times: int) -> None:
    """So many more tenants that are each granted all of a pool."""
    assert draft.plan is not None
    whole = dict(draft.plan.pool("notebooks").slices_max)
    tenant = dataclasses.replace(draft.plan.tenants[0], grants={"notebooks": whole})
    draft.plan = dataclasses.replace(
        draft.plan, tenants=tuple(dataclasses.replace(tenant, name=f"t{n}") for n in range(times))
    )


def _unpriced(draft: Draft) -> None:
    assert draft.plan is not None
    first, *others = draft.plan.pools
    machine = dataclasses.replace(first.machines[0], usd_per_hour=None)
    _plan(draft, pools=(dataclasses.replace(first, machines=(machine,)), *others), monthly_usd_max=1e9)


def _settings(draft: Draft, prefix: str) -> tuple[dict[str, Any], str]:
    """The operator's ConfigMap whose name starts so: its data and its name."""
    body = next(
        b for b in draft.bodies if b["kind"] == "ConfigMap" and b["metadata"]["name"].startswith(prefix)
    )
    return body["data"], body["metadata"]["name"]


def _replace(draft: Draft, prefix: str, key: str, old: str, new: str) -> None:
    data, _ = _settings(draft, prefix)
    assert data[key].count(old) >= 1
    data[key] = data[key].replace(old, new)


def _dropped(prefix: str) -> Change:
    return lambda draft: draft.drop("ConfigMap", _settings(draft, prefix)[1])


def _set(body: Any, *path: Any) -> None:
    """Put the last of `path` where the others lead."""
    *way, key, value = path
    for part in way:
        body = body[part]
    body[key] = value


TEMPLATE = ("spec", "template")
BAD: dict[str, list[tuple[str, Change, str, str]]] = {
    # rule: environment, change, part of the object and path, part of the message
    "unique-objects": [
        ("prod", _again, "NodePool notebooks metadata.name", "stands in the bundle twice"),
        (
            "prod",
            lambda d: d.releases.append(d.releases[0]),
            "HelmRelease gpu-operator/gpu-operator",
            "twice",
        ),
    ],
    "namespaces-exist": [
        (
            "prod",
            lambda d: d.drop("Namespace", TENANT),
            "metadata.namespace",
            "'team-vision' is created by nothing",
        ),
        ("prod", lambda d: d.drop("Namespace", "gpu-operator"), "ConfigMap", "and 1 more objects"),
    ],
    "priorities-exist": [
        (
            "prod",
            lambda d: d.drop("PriorityClass", "gpupool-warm"),
            "priorityClassName",
            "gpupool-warm does not",
        ),
        ("prod", lambda d: d.drop("PriorityClass", "training"), "matchExpressions[0].values[1]", "training"),
        (
            "prod",
            lambda d: d.bodies.append(job(TENANT, priorityClassName="reserch")),
            "Job team-vision/try spec.template.spec.priorityClassName",
            "did you mean 'research'",
        ),
    ],
    "accounts-exist": [
        (
            "prod",
            lambda d: d.drop("ServiceAccount", "gpupool-launcher"),
            "subjects[0].name",
            "gpupool-launcher",
        ),
        (
            "prod",
            lambda d: d.drop("ClusterRole", "gpupool-tenant"),
            "roleRef.name",
            "ClusterRole gpupool-tenant",
        ),
        (
            "dev",
            lambda d: d.bodies.append(job("default", serviceAccountName="ci")),
            "serviceAccountName",
            "ci",
        ),
    ],
    "configs-exist": [
        (
            "prod",
            lambda d: d.bodies.append(job(TENANT, **_reads("ConfigMap", "s", key="k"))),
            "env[0]",
            "s does not",
        ),
        (
            "prod",
            lambda d: d.bodies.extend(
                [job(TENANT, **_reads("ConfigMap", "s", key="k")), _config_map("s", j="1")]
            ),
            "Job",
            "no key 'k'",
        ),
        (
            "prod",
            lambda d: d.bodies.append(job(TENANT, volumes=[{"name": "v", "configMap": {"name": "s"}}])),
            "volumes[0].configMap.name",
            "does not exist",
        ),
    ],
    "secrets-exist": [
        (
            "prod",
            lambda d: d.bodies.append(job(TENANT, **_reads("Secret", "s", key="k"))),
            "secretKeyRef",
            "s does",
        ),
        (
            "prod",
            lambda d: d.bodies.append(job(TENANT, imagePullSecrets=[{"name": "registry"}])),
            "imagePullSecrets[0].name",
            "registry does not exist",
        ),
    ],
    "node-classes-exist": [
        (
            "prod",
            lambda d: d.drop("EC2NodeClass", "notebooks"),
            "nodeClassRef.name",
            "EC2NodeClass notebooks",
        ),
        ("local", lambda d: d.drop("KWOKNodeClass", "default"), "NodePool", "KWOKNodeClass default"),
        ("dev", lambda d: d.drop("NodePool", "notebooks-spot"), "NodeOverlay notebooks", "notebooks-spot"),
    ],
    "admission-complete": [
        ("prod", lambda d: d.bodies.append(_binding("gone")), "spec.policyName", "gone does not exist"),
        (
            "prod",
            lambda d: d.bodies.extend([_binding("p"), _policy("p")]),
            "paramRef",
            "ConfigMap team-vision/limits",
        ),
    ],
    "selectors-match": [
        (
            "prod",
            lambda d: d.bodies.append(_selecting("NetworkPolicy", {"matchLabels": {"a": "b"}})),
            "pod",
            "2 pods",
        ),
        (
            "prod",
            lambda d: d.bodies.append(
                _selecting("PodDisruptionBudget", {"matchExpressions": [{"key": "a", "operator": "Exists"}]})
            ),
            "spec.selector",
            "chooses none",
        ),
        ("prod", lambda d: d.bodies.append(_selecting("Service", {"a": "b"})), "Service", "none"),
    ],
    "device-plugin-configs-exist": [
        ("prod", _dropped("gpupool-device"), "HelmRelease", "does not exist"),
        (
            "local",
            _dropped("gpupool-device"),
            "ClusterPolicy cluster-policy spec.devicePlugin",
            "does not exist",
        ),
        (
            "prod",
            lambda d: _settings(d, "gpupool-device")[0].pop("batch-l4"),
            "NodePool batch-l4",
            "=batch-l4, which",
        ),
        ("homelab", lambda d: _settings(d, "gpupool-device")[0].pop("desk"), "Node k3s-gpu-0", "=desk"),
        (
            "prod",
            lambda d: _settings(d, "gpupool-device")[0].pop("gpupool.default"),
            "config.default",
            "default",
        ),
        (
            "prod",
            lambda d: _set(_settings(d, "gpupool-device")[0], "notebooks", "a: [b"),
            "data[notebooks]",
            "YAML",
        ),
        (
            "prod",
            lambda d: d.values("gpu-operator").pop("devicePlugin"),
            "NodePool",
            "pointed at no ConfigMap",
        ),
        ("dev", lambda d: d.releases.clear(), "NodePool", "pointed at no ConfigMap"),
    ],
    "mig-configs-exist": [
        ("prod", _dropped("gpupool-mig"), "HelmRelease", "does not exist"),
        (
            "prod",
            lambda d: _replace(d, "gpupool-mig", "config.yaml", '"7x1g', '"6x1g'),
            "small",
            "=7x1g.10gb, which",
        ),
        (
            "prod",
            lambda d: _replace(d, "gpupool-mig", "config.yaml", "all-dis", "dis"),
            "config.default",
            "no layout",
        ),
        (
            "prod",
            lambda d: _set(_settings(d, "gpupool-mig")[0], "config.yaml", "[]"),
            "config.yaml",
            "no mapping",
        ),
        ("prod", lambda d: d.values("gpu-operator").pop("migManager"), "NodePool", "pointed at no ConfigMap"),
    ],
    "operator-tolerates-pools": [
        (
            "prod",
            lambda d: d.values("gpu-operator")["daemonsets"]["tolerations"].pop(),
            "values.daemonsets",
            "=note",
        ),
        (
            "local",
            lambda d: d.one("ClusterPolicy")["spec"].pop("daemonsets"),
            "spec.daemonsets",
            "not tolerated",
        ),
        (
            "prod",
            lambda d: d.values("gpu-operator").pop("node-feature-discovery"),
            "worker.tolerations",
            "gpu=mig",
        ),
    ],
    "pods-reach-pools": [
        (
            "prod",
            lambda d: _pod_spec(d).pop("tolerations"),
            "Deployment",
            "gpupool.dev/pool=notebooks:NoSchedule",
        ),
        (
            "prod",
            lambda d: d.bodies.append(
                job(TENANT, nodeSelector={"gpupool.dev/pool": "note"}, tolerations=[REACHES])
            ),
            "nodeSelector[gpupool.dev/pool]",
            "there is no pool 'note'",
        ),
        (
            "prod",
            lambda d: d.bodies.append(job(TENANT, affinity=_affinity("batch-l4", "notebooks"))),
            "spec.template.spec.tolerations",
            "never starts",
        ),
    ],
    "priorities-differ": [
        (
            "prod",
            lambda d: d.bodies.append(_priority("other", 100)),
            "PriorityClass other value",
            "that of research",
        ),
    ],
    "one-default-priority": [
        (
            "prod",
            lambda d: d.bodies.extend(_priority(f"d{n}", -20 - n, globalDefault=True) for n in (1, 2)),
            "PriorityClass d2 globalDefault",
            "d1 already is",
        ),
    ],
    "priorities-as-planned": [
        (
            "prod",
            lambda d: d.drop("PriorityClass", "batch"),
            "priorities batch",
            "'batch' has no PriorityClass",
        ),
        ("prod", lambda d: _set(d.one("PriorityClass", "training"), "value", 50), "training value", "is 50"),
        (
            "prod",
            lambda d: d.one("PriorityClass", "training").pop("preemptionPolicy"),
            "preemption",
            "may push",
        ),
    ],
    "tenant-priorities-bounded": [
        ("prod", lambda d: d.bodies.append(_priority("vip", 5000)), "Namespace team-", "forbids vip"),
        (
            "prod",
            lambda d: d.drop("ResourceQuota", "gpupool-priorities"),
            "Namespace team-",
            "up to batch, but no quota of namespace 'team-analytics' forbids production-inference, training",
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
    ],
    "quotas-as-granted": [
        (
            "dev",
            lambda d: _set(
                d.one("ResourceQuota", "gpupool"), "spec", "hard", "requests.nvidia.com/gpu", "17"
            ),
            "spec.hard[requests.nvidia.com/gpu]",
            "allows 17 x nvidia.com/gpu; tenant 'platform' is granted 18",
        ),
    ],
    "quotas-within-capacity": [
        (
            "dev",
            lambda d: _set(
                d.one("ResourceQuota", "gpupool"), "spec", "hard", "requests.nvidia.com/gpu", "1k"
            ),
            "ResourceQuota team-platform/gpupool spec.hard[requests.nvidia.com/gpu]",
            "allows 1000 x nvidia.com/gpu; all pools together have 24",
        ),
    ],
    "pools-not-oversubscribed": [
        ("prod", lambda d: _promise(d, 5), "pool notebooks", "promised 50: 5.0 times"),
    ],
    "pool-counts-agree": [
        (
            "prod",
            lambda d: _replace(d, "gpupool-device", "notebooks", "8", "9"),
            "NodeOverlay",
            "has 9 x nvidia.com",
        ),
        (
            "prod",
            lambda d: _set(d.one("NodeOverlay", "batch-l4.4gpu"), "spec", "capacity", "nvidia.com/gpu", "12"),
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
            lambda d: _replace(d, "gpupool-mig", "config.yaml", '"2g.20gb": 2', '"2g.20gb": 1'),
            "NodePool inference-h100 spec.template.metadata.labels",
            "8 x nvidia.com/mig-2g.20gb; the plan counts on 8 x nvidia.com/mig-3g.40gb, 16 x",
        ),
        (
            "prod",
            lambda d: _replace(d, "gpupool-device", "inference-h100", "mixed", "none"),
            "inference",
            "will have 0",
        ),
        (
            "prod",
            lambda d: _set(d.one("NodePool", "notebooks"), "spec", "limits", "nodes", "20"),
            "NodePool notebooks spec.limits[nvidia.com/gpu]",
            "limited to 80 x nvidia.com/gpu; its 20 nodes have 160",
        ),
        (
            "prod",
            lambda d: d.bodies.append(_heavier(d.one("NodeOverlay", "notebooks"))),
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
            lambda d: _set(d.one("NodePool", "training-h100"), "spec", "limits", {"nodes": "8"}),
            "spec.limits[nvidia.com/gpu]",
            "missing, planned 64",
        ),
        (
            "prod",
            lambda d: _set(d.one("NodePool", "notebooks"), *TEMPLATE, "spec", "taints", []),
            "spec.template.spec.taints",
            "anybody's pods",
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
            lambda d: _set(
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
    "cost-within-ceiling": [
        (
            "prod",
            lambda d: _plan(d, monthly_usd_max=512168.07),
            "cost.monthlyUsdMax",
            "cost 512168.08 USD a month",
        ),
        ("prod", _unpriced, "cost.monthlyUsdMax", "no price is known for notebooks"),
    ],
    "budgets-within-ceiling": [
        ("prod", lambda d: _plan(d, monthly_usd_max=524999), "cost.monthlyUsdMax", "may spend 525000.00 USD"),
    ],
}


def _affinity(*pools: str) -> dict[str, Any]:
    row = {"key": "gpupool.dev/pool", "operator": "In", "values": list(pools)}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [row]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def _heavier(overlay: dict[str, Any]) -> dict[str, Any]:
    found = copy.deepcopy(overlay)
    found["metadata"]["name"] = "heavier"
    found["spec"] |= {"weight": 200, "capacity": {"nvidia.com/gpu": "1"}}
    return found


def test_every_rule_has_a_bad_case() -> None:
    names = [rule.name for rule in RULES]
    assert list(BAD) == names, "in the order in which they are registered"
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("rule", "name", "change", "place", "message"),
    [
        pytest.param(rule, *case, id=f"{rule}-{n}")
        for rule, cases in BAD.items()
        for n, case in enumerate(cases)
    ],
)
def test_fault_is_found(rule: str, name: str, change: Change, place: str, message: str) -> None:
    draft = shipped(name)
    change(draft)
    found = [finding for finding in draft.findings() if finding.rule == rule]
    assert found, {finding.rule for finding in draft.findings()}
    said = [(f"{finding.object or ''} {finding.path}", finding.message) for finding in found]
    assert any(place in where and message in text for where, text in said), said
    registered = next(known for known in RULES if known.name == rule)
    assert {finding.level for finding in found} == {registered.level}
    assert {finding.origin for finding in found} == {"bundle"}
    assert all(finding.title and finding.why and finding.fix for finding in found)


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
        lambda d: d.bodies.append(job(TENANT, **_reads("ConfigMap", "s", key="k", optional=True))),
    ),
    "config-with-its-key": (
        "prod",
        lambda d: d.bodies.extend(
            [job(TENANT, **_reads("ConfigMap", "s", key="k")), _config_map("s", k="1")]
        ),
    ),
    "secret-that-a-controller-makes": (
        "prod",
        lambda d: d.bodies.extend(
            [
                job(TENANT, **_reads("Secret", "s", key="k")),
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
            job(TENANT, **_reads("Secret", "s", key="k"), priorityClassName="urgent")
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
        lambda d: d.bodies.extend([_binding("p"), _policy("p"), _config_map("limits")]),
    ),
    "selector-of-pods-that-are-there": (
        "prod",
        lambda d: d.bodies.append(_selecting("Service", {"gpupool.dev/warm": "notebooks"})),
    ),
    "pod-that-tolerates-one-pool-of-two": (
        "prod",
        lambda d: d.bodies.append(
            job(TENANT, affinity=_affinity("training-h100", "notebooks"), tolerations=[REACHES])
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
        lambda d: _set(d.values("gpu-operator"), "daemonsets", "tolerations", [{"operator": "Exists"}]),
    ),
    "pools-promised-four-times": ("prod", lambda d: _promise(d, 4)),
    "ceiling-that-is-just-kept": ("prod", lambda d: _plan(d, monthly_usd_max=525000)),
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
    if case == "pools-promised-four-times":
        found = [finding for finding in found if finding.rule == "pools-not-oversubscribed"]
    assert found == []


def test_others_operator_is_only_pointed_at_configurations() -> None:
    """Of an operator that others run no tolerations are known, and its namespace is theirs to make."""
    draft = shipped("homelab")
    assert draft.plan is not None
    operator = dataclasses.replace(draft.plan.gpu_operator, install=False)
    _plan(draft, gpu_operator=operator)
    config = draft.values("gpu-operator")["devicePlugin"]["config"]
    draft.releases.clear()
    draft.drop("Namespace", "gpu-operator")
    policy = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "cluster-policy"}}
    draft.patches.append({**policy, "spec": {"devicePlugin": {"config": config}}})
    assert draft.findings() == []
    config["name"] = "gone"
    assert [finding.rule for finding in draft.findings()] == ["device-plugin-configs-exist"] * 2


def test_what_a_folder_lacks_is_no_denial() -> None:
    """Nobody knows that a folder is everything; what it contradicts itself in is denied all the same."""
    draft = shipped("prod")
    draft.plan = None
    draft.drop("Namespace", TENANT)
    draft.one("NodeOverlay", "notebooks")["spec"]["capacity"]["nvidia.com/gpu"] = "9"
    found = {(finding.rule, finding.level) for finding in draft.findings()}
    assert found == {("namespaces-exist", "warn"), ("pool-counts-agree", "deny")}


def test_folder_without_plan_knows_capacity_by_its_node_pools() -> None:
    draft = shipped("dev")
    draft.plan = None
    hard = draft.one("ResourceQuota", "gpupool")["spec"]["hard"]
    hard["requests.nvidia.com/gpu"] = "97"
    found = {finding.rule: finding.message for finding in draft.findings()}
    assert set(found) == {"quotas-within-capacity", "pools-not-oversubscribed"}
    assert "24 x nvidia.com/gpu at most; quotas promise 97" in found["pools-not-oversubscribed"]


def test_finding_names_file_and_line() -> None:
    from policies.bundle import BundleObject

    item = BundleObject(job("nowhere"), "jobs.yaml", 7)
    (finding,) = check_bundle(Bundle("folder", (item,)))
    assert (finding.file, finding.line, str(finding.object)) == ("jobs.yaml", 7, "Job nowhere/try")


def _folder(name: str) -> Draft:
    draft = shipped(name)
    draft.plan = None
    return draft


def test_machines_beside_node_pools_leave_capacity_open() -> None:
    """What nodes that exist already have is in no file."""
    draft = _folder("dev")
    draft.one("ResourceQuota", "gpupool")["spec"]["hard"]["requests.nvidia.com/gpu"] = "97"
    node = {"name": "n", "labels": {"gpupool.dev/pool": "desk"}}
    draft.bodies.append({"apiVersion": "v1", "kind": "Node", "metadata": node})
    assert draft.findings() == []


def test_folder_without_nodes_does_not_say_which_pools_there_are() -> None:
    naming = job("default", nodeSelector={"gpupool.dev/pool": "notebooks"})
    assert check_bundle(Bundle.of("jobs", [naming])) == []
    draft = shipped("dev")
    draft.bodies = [body for body in draft.bodies if body["kind"] != "NodePool"] + [naming]
    assert "pods-reach-pools" in {finding.rule for finding in draft.findings()}


def test_affinity_for_another_label_names_no_pool() -> None:
    draft = shipped("prod")
    rows = [
        {"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]},
        {"key": "gpupool.dev/pool", "operator": "NotIn", "values": ["gone"]},
    ]
    affinity = _affinity()
    affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] = [
        {"matchExpressions": rows}
    ]
    draft.bodies.append(job(TENANT, affinity=affinity))
    assert draft.findings() == []


def _overlay(requirements: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": "other"},
        "spec": {"weight": 200, "requirements": requirements, "capacity": {"nvidia.com/gpu": "1"}},
    }


@pytest.mark.parametrize(
    ("requirements", "rules"),
    [
        (
            [{"key": "karpenter.sh/nodepool", "operator": "NotIn", "values": ["notebooks"]}],
            {"pool-counts-agree"},
        ),
        ([{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m7i.large"]}], set()),
        ([{"key": "gpupool.dev/pool", "operator": "In", "values": ["notebooks"]}], {"pool-counts-agree"}),
        # Instance families are not known here: Karpenter may choose it or not.
        ([{"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["g4dn"]}], set()),
    ],
)
def test_overlays_are_held_against_the_pools_that_they_choose(
    requirements: list[dict[str, Any]], rules: set[str]
) -> None:
    draft = shipped("prod")
    draft.bodies.append(_overlay(requirements))
    found = draft.findings()
    assert {finding.rule for finding in found} == rules
    about = {finding.message for finding in found if "of notebooks has" in finding.message}
    assert bool(about) == (requirements[0]["key"] == "gpupool.dev/pool")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("devices: all\n    mig-enabled: true", "devices: [0, 1]\n    mig-enabled: true"),
        ("devices: all\n    mig-enabled: true", "devices: all\n    device-filter: x\n    mig-enabled: true"),
    ],
)
def test_layouts_that_differ_from_gpu_to_gpu_are_not_counted(old: str, new: str) -> None:
    draft = _folder("prod")
    _replace(draft, "gpupool-mig", "config.yaml", old, new)
    for overlay in ("inference-h100", "inference-small"):
        draft.one("NodeOverlay", overlay)["spec"]["capacity"] = {"nvidia.com/gpu": "5"}
    assert draft.findings() == []


def test_node_pool_without_a_limit_of_nodes_is_not_counted() -> None:
    draft = _folder("prod")
    draft.one("NodePool", "notebooks")["spec"]["limits"] = {"nvidia.com/gpu": "80"}
    assert draft.findings() == []


def test_configurations_that_the_chart_makes() -> None:
    draft = _folder("prod")
    data, name = _settings(draft, "gpupool-device")
    draft.drop("ConfigMap", name)
    config = draft.values("gpu-operator")["devicePlugin"]["config"]
    config |= {"create": True, "data": data}
    assert draft.findings() == []
    data["notebooks"] = "a: [b"
    (finding,) = draft.findings()
    assert (str(finding.object), finding.path) == ("HelmRelease gpu-operator/gpu-operator", "data[notebooks]")
