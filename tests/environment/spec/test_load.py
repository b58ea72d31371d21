"""From a file to an Environment and a Plan: every finding at once, none hidden, none made up."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.environment.plan.model import Plan
from gpupool.environment.plan.resolve import resolve
from gpupool.environment.spec.load import check_shape, environment_names, find_environment
from gpupool.environment.spec.yaml_source import parse_source
from gpupool.findings import Finding, SpecError, UsageError

HEAD = """\
apiVersion: gpupool.dev/v1alpha1
kind: Environment
metadata: {name: x}
cluster: {platform: local, name: x}
"""
POOL = "  - {name: a, gpu: t4, nodes: {instanceTypes: [g4dn.xlarge], max: 2}}\n"


def plan_of(text: str) -> Plan:
    return resolve(check_shape(parse_source("x.yaml", text.encode())))


def found(text: str) -> list[Finding]:
    with pytest.raises(SpecError) as caught:
        plan_of(text)
    return list(caught.value.findings)


def paths(text: str) -> list[str]:
    return [finding.path for finding in found(text)]


def test_the_smallest_environment() -> None:
    plan = plan_of(HEAD)
    assert plan.pools == ()
    assert plan.tenants == ()


def test_defaults() -> None:
    (pool,) = plan_of(HEAD + "pools:\n" + POOL).pools
    assert pool.sharing.mode == "exclusive"
    assert [taint.as_dict() for taint in pool.taints] == [
        {"key": "gpupool.dev/pool", "value": "a", "effect": "NoSchedule"}
    ]
    assert (pool.warm, pool.spot_share, pool.expire_after, pool.max_unavailable) == (0, 0.0, "Never", 1)
    assert pool.labels["gpupool.dev/pool"] == "a"
    assert [capacity.type for capacity in pool.capacities] == ["on-demand"]


def test_defaults_of_sections() -> None:
    plan = plan_of(HEAD)
    assert plan.cluster.kubernetes_version == "1.36"
    assert plan.gpu_operator.version == "v26.7.0"
    assert plan.gpu_operator.driver.enabled
    assert plan.karpenter is not None
    assert (plan.karpenter.version, plan.karpenter.discovery_tag) == ("1.14.1", "x")
    assert plan.monitoring.dcgm_interval == "15s"


def test_no_taints_when_the_list_is_empty() -> None:
    text = HEAD + "pools:\n" + POOL.replace("}}\n", "}, taints: []}\n")
    assert plan_of(text).pools[0].taints == ()


def test_default_priority_is_the_lowest() -> None:
    priorities = "priorities: [{name: p, value: 2, level: high}, {name: q, value: 1, level: low}]\n"
    (tenant,) = plan_of(HEAD + priorities + "tenants: [{name: t, namespace: t}]\n").tenants
    assert tenant.max_priority == "q"


def test_anchors_share_settings() -> None:
    text = HEAD + (
        "pools:\n  - &t4 {name: a, gpu: t4, nodes: &nodes {instanceTypes: [g4dn.xlarge], max: 2}}\n"
        "  - {<<: *t4, name: b, nodes: {<<: *nodes, max: 3}}\n"
    )
    assert [(pool.name, pool.nodes_max) for pool in plan_of(text).pools] == [("a", 2), ("b", 3)]


@pytest.mark.parametrize("until", ["2027-03-31", '"2027-03-31"'])
def test_a_date_needs_no_quotes(until: str) -> None:
    waiver = f"policies: {{waivers: [{{policy: pin-images, owner: o, reason: r, until: {until}}}]}}\n"
    assert plan_of(HEAD + waiver)


@pytest.mark.parametrize("until", ["2027-02-30", "tomorrow", "2027", "2027-03-31 10:00:00"])
def test_a_date_is_a_date(until: str) -> None:
    waiver = f"policies: {{waivers: [{{policy: pin-images, owner: o, reason: r, until: {until}}}]}}\n"
    (finding,) = found(HEAD + waiver)
    assert finding.path == "policies.waivers[0].until"
    assert "2027-03-31" in finding.remediation


BROKEN = [
    ("pools: [{name: broken, nodes: {max: 1, instanceTypes: [g4dn.xlarge]}}, ", "pools[0].gpu"),
    (
        "pools: [{name: broken, gpu: t4, nodes: {max: four, instanceTypes: [g4dn.xlarge]}}, ",
        "pools[0].nodes.max",
    ),
    (
        "pools: [{name: broken, gpu: t4, nodes: {max: 1, instanceTypes: [1]}}, ",
        "pools[0].nodes.instanceTypes[0]",
    ),
    ("pools: [{name: Broken, gpu: t4, nodes: {max: 1, instanceTypes: [g4dn.xlarge]}}, ", "pools[0].name"),
    ("pools: [text, ", "pools[0]"),
    ("cluster: {platform: local, name: x, kubernetesVersion: 1.36}\npools: [", "cluster.kubernetesVersion"),
    ("metadata: {name: x, annotations: {a: 1}}\npools: [", "metadata.annotations.a"),
    ("surprise: 1\npools: [", "surprise"),
    ("'[key]': 1\npools: [", '["[key]"]'),
    ("tenants: [{name: t}]\npools: [", "tenants[0].namespace"),
    ("gpuOperator: {values: {a: {b: [yes]}}}\npools: [", "gpuOperator.values.a.b[0]"),
    ("queue: 3\npools: [", "queue"),
]


@pytest.mark.parametrize(("text", "path"), BROKEN, ids=[path for _, path in BROKEN])
def test_a_broken_part_hides_nothing_else(text: str, path: str) -> None:
    """A shape error in one place, and an error of meaning in another: both are reported, and nothing else."""
    other = "{name: other, gpu: no-such-gpu, nodes: {max: 1, instanceTypes: [g4dn.xlarge]}}]\n"
    given = text.partition(":")[0]
    head = "".join(line for line in HEAD.splitlines(keepends=True) if not line.startswith(f"{given}:"))
    index = 1 if given == "pools" else 0
    assert set(paths(head + text + other)) == {path, f"pools[{index}].gpu"}
    assert len(paths(head + text + other)) == 2


EKS = HEAD.replace("local, name: x", "eks, name: x, region: us-east-1") + "karpenter: {nodeRole: nodes}\n"
SLICED = (
    "  - name: a\n    gpu: t4\n    sharing: {mode: time-slicing, replicas: 4}\n"
    "    nodes: {instanceTypes: [g4dn.xlarge], max: 2}\n"
)
SEVERAL = {
    "a key that appears twice": (
        EKS + "pools:\n" + SLICED.replace("max: 2", "max: 2, max: 3")
        + "    taints: [{key: nvidia.com/x}]\n    maintenance: {window: never}\nbogus: 1\n",
        ["pools[0].nodes.max", "pools[0].taints[0].key", "pools[0].maintenance.window", "bogus"],
    ),
    "a key that is not text, a tag and a merge": (
        EKS + "pools:\n" + SLICED.replace("max: 2", "max: !!int 2, warm: 1")
        + "    labels: {y: a, k8s.io/x: a}\n    <<: 3\nbogus: 1\n",
        ["pools[0].nodes.max", "pools[0].labels", 'pools[0].labels["k8s.io/x"]', 'pools[0]["<<"]', "bogus"],
    ),
    "a tenant's namespace": (
        EKS + "pools:\n" + SLICED + "tenants:\n  - {name: t, namespace: N, maxPriority: nope, "
        "pools: {a: {gpus: 2, slices: 3}, zz: {gpus: 1}}, access: {oidcGroups: ['system:masters']}}\n",
        [
            "tenants[0].namespace", "tenants[0].maxPriority", "tenants[0].pools.a", "tenants[0].pools.zz",
            "tenants[0].access.oidcGroups[0]",
        ],
    ),
    "a mode": (
        EKS + "pools:\n" + SLICED + SLICED.replace("t4", "A100").replace("time-slicing", "timeslicing"),
        ["pools[1].name", "pools[1].gpu", "pools[1].sharing"],
    ),
    "a label's key": (
        EKS + "pools:\n" + SLICED + '    labels: {"a b": c, karpenter.sh/x: a, nvidia.com/mig.config: 1}\n',
        [
            'pools[0].labels["a b"]', 'pools[0].labels["karpenter.sh/x"]',
            'pools[0].labels["nvidia.com/mig.config"]', 'pools[0].labels["nvidia.com/mig.config"]',
        ],
    ),
    "a node's name": (
        HEAD.replace("local", "static") + "pools:\n  - {name: a, gpu: t4, nodes: {names: [n1]}}\n"
        "  - {name: b, gpu: t4, nodes: {names: [N2, n3, n1], max: 3}}\n",
        ["pools[1].nodes.names[0]", "pools[1].nodes.names[2]"],
    ),
    "one field of a section": (
        HEAD.replace("local", "static")
        + "pools: [{name: a, gpu: t4, nodes: {names: [n1], selector: {a: b}, max: 1, gpus: 0}}]\n",
        ["pools[0].nodes", "pools[0].nodes.gpus"],
    ),
    "the platform": (
        HEAD.replace("local", "moon")
        + "pools: [{name: A, gpu: t5, nodes: {names: [n1]}, fallbackTo: [b]}]\n",
        ["cluster.platform", "pools[0].name", "pools[0].gpu", "pools[0].fallbackTo[0]"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), SEVERAL.values(), ids=SEVERAL)
def test_everything_is_reported_at_once(text: str, expected: list[str]) -> None:
    assert sorted(paths(text)) == sorted(expected)


TENANT = "tenants: [{name: t, namespace: t, pools: {a: {gpus: 1}}, budget: {usd: 1}}]\n"
CONSEQUENCES = {
    "a price": (
        EKS + "pools:\n" + SLICED.replace("max: 2", "max: 2, warm: 2, usdPerHour: free") + TENANT,
        "pools[0].nodes.usdPerHour",
    ),
    "a period": (
        EKS + "pools:\n" + SLICED.replace("max: 2", "max: 2, warm: 2")
        + TENANT.replace("usd: 1", "usd: 1, period: hour"),
        "tenants[0].budget.period",
    ),
    "another tenant's grant": (
        EKS + "pools:\n" + SLICED.replace("max: 2", "max: 2, warm: 1")
        + TENANT.replace("usd: 1", "usd: 250").replace(
            "}]\n", "}, {name: u, namespace: u, pools: {a: {gpus: one}}}]\n"
        ),
        "tenants[1].pools.a.gpus",
    ),
    "a driver": (
        EKS + "gpuOperator: {driver: {version: newest}}\npools:\n"
        "  - {name: a, gpu: v100, nodes: {instanceTypes: [p3dn.24xlarge], max: 1}}\n",
        "gpuOperator.driver.version",
    ),
    "an engine": (HEAD + "delivery: {engine: argo, argocd: {project: p}}\n", "delivery.engine"),
    "a registry": (
        HEAD + "policies: {limits: {registries: [r.example/, s.example]}}\n"
        "monitoring: {assertion: {image: 'r.example/i:1'}}\n",
        "policies.limits.registries[0]",
    ),
    "an effect": (
        EKS + "pools:\n" + SLICED + "    taints: [{key: a}, {key: a, effect: No}]\n",
        "pools[0].taints[1].effect",
    ),
    "a priority": (
        HEAD + "priorities: [{name: a, value: 9, level: high}, {name: b, value: x, level: low}]\n",
        "priorities[1].value",
    ),
    "all pools": (HEAD + "pools: {}\n" + TENANT, "pools"),
    "a name without quotes": (
        EKS + "pools:\n" + SLICED.replace("name: a", "name: 1") + TENANT.replace("a:", '"1":', 1),
        "pools[0].name",
    ),
    "a selector's label": (
        HEAD.replace("local", "static")
        + "pools:\n  - {name: a, gpu: t4, nodes: {selector: {a: b, c: 1}, max: 1}}\n"
        "  - {name: b, gpu: t4, nodes: {selector: {a: b, d: e}, max: 1}}\n",
        "pools[0].nodes.selector.c",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "path"), CONSEQUENCES.values(), ids=CONSEQUENCES)
def test_what_is_left_out_makes_no_second_finding(text: str, path: str) -> None:
    assert paths(text) == [path]


def test_karpenter_s_broken_version_does_not_feign_a_missing_role() -> None:
    text = HEAD.replace("local, name: x", "eks, name: x, region: r")
    assert paths(text + "karpenter: {nodeRole: role, version: 1.14}\n") == ["karpenter.version"]


def test_an_unknown_field_called_like_a_mode() -> None:
    text = HEAD + "pools:\n" + POOL.replace("}}\n", "}, sharing: {mode: mps, replicas: 2, mig: 1}}\n")
    (finding,) = found(text)
    assert finding.path == "pools[0].sharing.mig"
    assert "known fields: mode, replicas" in finding.remediation


def test_twins_are_named_by_their_place_in_the_file() -> None:
    text = HEAD + "pools:\n  - {name: broken}\n" + POOL + POOL
    twin = next(finding for finding in found(text) if finding.path == "pools[2].name")
    assert "already used by pools[1]" in twin.what


def test_a_reference_to_a_broken_pool_is_no_second_finding() -> None:
    tenants = "tenants: [{name: t, namespace: t, pools: {a: {gpus: 1}, b: {gpus: 1}}}]\n"
    text = HEAD + "pools: [{name: a, gpu: 7}]\n" + tenants
    assert paths(text) == ["pools[0].nodes", "pools[0].gpu", "tenants[0].pools.b"]


@pytest.mark.parametrize("sharing", ["{mode: mps, replicas: many}", "{mode: mpss, replicas: 4}", "4", "{}"])
def test_nothing_is_held_against_a_pool_whose_sharing_is_broken(sharing: str) -> None:
    """As a pool of whole GPUs, the default, it would have too few for the grant."""
    text = HEAD + "pools:\n" + POOL.replace("}}\n", f"}}, sharing: {sharing}}}\n")
    text += "tenants: [{name: t, namespace: t, pools: {a: {slices: 8}}}]\n"
    assert {path.partition(".")[0] for path in paths(text)} == {"pools[0]"}


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ("devicePlugin: x", "devicePlugin"),
        ("mig: null", "mig"),
        ("migManager: []", "migManager"),
        ("node-feature-discovery: {worker: 1}", "node-feature-discovery.worker"),
        ("mig: {strategy: single}", "mig.strategy"),
    ],
)
def test_helm_values_can_t_take_the_place_of_what_is_derived(value: str, path: str) -> None:
    assert paths(HEAD + f"gpuOperator: {{values: {{{value}}}}}\n") == [f"gpuOperator.values.{path}"]


def test_findings_come_in_the_order_of_the_file() -> None:
    text = "kind: Wrong\nmetadata: {name: X}\ncluster: {platform: moon, name: x}\nextra: 1\n"
    findings = found(text)
    assert findings == list(SpecError(findings).findings)
    assert [finding.line for finding in findings] == [1, 1, 2, 3, 4]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "environments").mkdir()
    for name in ("b", "a"):
        (tmp_path / "environments" / f"{name}.yaml").write_text(
            HEAD.replace("name: x}\nc", f"name: {name}}}\nc")
        )
    (tmp_path / "inside").mkdir()
    monkeypatch.chdir(tmp_path / "inside")
    return tmp_path


def test_environments_are_found_from_below(project: Path) -> None:
    assert environment_names() == ["a", "b"]
    assert find_environment("a") == project / "environments" / "a.yaml"
    assert find_environment("../environments/b.yaml").is_file()


@pytest.mark.parametrize(("name", "what"), [("../environments/", "a folder"), ("/dev/null", "not a file")])
def test_what_is_there_and_is_no_file_is_not_called_missing(project: Path, name: str, what: str) -> None:
    with pytest.raises(UsageError, match=f"{name}: {what}; name an environment"):
        find_environment(name)


@pytest.mark.parametrize("name", ["c", "c.yaml", "./c", "", "../environments/a"])
def test_what_is_not_there_is_wrong_use_and_names_what_is(project: Path, name: str) -> None:
    with pytest.raises(UsageError, match="a, b"):
        find_environment(name)
