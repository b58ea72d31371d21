"""Values of charts inside objects and files of other tools: opened, or named with what to do."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from gpupool.adopt.convert.convert import Conversion, convert
from gpupool.adopt.convert.documents import parse_documents
from gpupool.adopt.convert.draft import Choices
from gpupool.adopt.convert.placeholders import form_of, forms

PLUGIN = "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}\n"
VALUES = {
    "driver": {"enabled": False},
    "toolkit": {"env": [{"name": "CONTAINERD_CONFIG", "value": "/etc/containerd/config.toml"}]},
    "devicePlugin": {"config": {"create": True, "name": "c", "default": "any", "data": {"any": PLUGIN}}},
}
TEXT = yaml.safe_dump(VALUES)
VERSION = "v26.3.3"
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "a", "labels": {"nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/gpu.count": "1"}},
}


def thing(group: str, kind: str, spec: Any, **more: Any) -> dict[str, Any]:
    metadata = {"name": "gpu-operator", "namespace": "gpus"}
    return {"apiVersion": f"{group}/v1", "kind": kind, "metadata": metadata, "spec": spec, **more}


def argo(**helm: Any) -> dict[str, Any]:
    return {
        "repoURL": "https://helm.example",
        "chart": "gpu-operator",
        "targetRevision": VERSION,
        "helm": helm,
    }


OPENED = {
    "Flux": thing(
        "helm.toolkit.fluxcd.io", "HelmRelease",
        {"chart": {"spec": {"chart": "gpu-operator", "version": VERSION}}, "values": VALUES},
    ),
    "k3s": thing(
        "helm.cattle.io", "HelmChart",
        {"chart": "nvidia/gpu-operator", "version": VERSION, "valuesContent": TEXT},
    ),
    "RKE2's own chart": thing("helm.cattle.io", "HelmChartConfig", {"valuesContent": TEXT}),
    "Argo CD, fields": thing("argoproj.io", "Application", {"source": argo(valuesObject=VALUES)}),
    "Argo CD, text": thing("argoproj.io", "Application", {"source": argo(values=TEXT)}),
    "Argo CD, sources": thing(
        "argoproj.io", "Application", {"sources": [{"repoURL": "x", "ref": "values"}, argo(values=TEXT)]}
    ),
    "Argo CD, both": thing(
        "argoproj.io", "Application", {"source": argo(values="driver: {enabled: true}", valuesObject=VALUES)}
    ),
    "Argo CD, several": thing(
        "argoproj.io", "ApplicationSet", {"template": {"spec": {"source": argo(valuesObject=VALUES)}}}
    ),
    "Crossplane": thing(
        "helm.crossplane.io", "Release",
        {"forProvider": {"chart": {"name": "gpu-operator", "version": VERSION}, "values": VALUES}},
    ),
    "Cluster API": thing(
        "addons.cluster.x-k8s.io", "HelmChartProxy",
        {"chartName": "gpu-operator", "version": VERSION, "valuesTemplate": TEXT},
    ),
    "kustomize": {
        "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
        "helmCharts": [{"name": "gpu-operator", "version": VERSION, "valuesInline": VALUES}],
    },
    "helmfile": {
        "repositories": [],
        "releases": [
            {"name": "web", "chart": "other/web", "values": [{"replicas": 2}]},
            {"name": "gpus", "chart": "nvidia/gpu-operator", "version": VERSION, "values": [VALUES]},
        ],
    },
    "Fleet": {
        "defaultNamespace": "gpus", "helm": {"chart": "gpu-operator", "version": VERSION, "values": VALUES},
    },
}  # fmt: skip


def converted(*objects: Any) -> Conversion:
    documents, findings = parse_documents("all.yaml", yaml.safe_dump_all(objects, sort_keys=False).encode())
    assert not findings
    return convert(documents, Choices())


@pytest.mark.parametrize("tool", OPENED)
def test_values_are_read_where_they_are(tool: str) -> None:
    result = converted(NODE, OPENED[tool])
    data = yaml.safe_load(result.text)
    assert result.left_out == ()
    assert data["gpuOperator"]["driver"] == {"enabled": False}
    assert data["gpuOperator"]["values"]["toolkit"] == VALUES["toolkit"]
    assert data["gpuOperator"].get("version") == (None if tool == "RKE2's own chart" else VERSION)
    assert data["pools"][0]["sharing"] == {"mode": "time-slicing", "replicas": 4}
    assert not [str(entry) for entry in result.leftovers if "not part of" in str(entry)]


@pytest.mark.parametrize(("style", "line"), [("|", 7), ("'", 5)])
def test_a_value_is_found_at_its_place(style: str, line: int) -> None:
    """In a block at its own line; in a text with escapes at the key of that."""
    block = "|-\n    gfd:\n      env: [{name: MIG_STRATEGY, value: single}]\n    mig: {}"
    escaped = "'gfd: {env: [{name: MIG_STRATEGY, value: single}]}\n\n\n    mig: {}'"
    text = (
        "apiVersion: helm.cattle.io/v1\nkind: HelmChartConfig\nmetadata: {name: gpu-operator}\n"
        f"spec:\n  valuesContent: {block if style == '|' else escaped}\n"
    )
    documents, findings = parse_documents("k3s.yaml", f"a: 1\n---\n{text}".encode())
    assert not findings
    (entry,) = [e for e in convert(documents, Choices()).leftovers if e.path == "gfd.env[0]"]
    assert entry.line == line + 2


def test_later_values_go_over_earlier_ones() -> None:
    more = {"toolkit": {"version": "v1"}, "dcgmExporter": {"serviceMonitor": {"enabled": True}}}
    config = thing("helm.cattle.io", "HelmChartConfig", {"valuesContent": yaml.safe_dump(more)})
    data = yaml.safe_load(converted(NODE, OPENED["k3s"], config).text)
    assert data["monitoring"] == {"prometheusOperator": True}
    assert data["gpuOperator"]["values"]["toolkit"] == VALUES["toolkit"]


ELSEWHERE = {
    "from a ConfigMap": ("Flux", ("valuesFrom",), [{"kind": "ConfigMap", "name": "values"}]),
    "set one by one": ("k3s", ("set",), {"driver.enabled": "true"}),
    "parameters": ("Argo CD, text", ("source", "helm", "parameters"), [{"name": "a", "value": "b"}]),
    "files of values": ("Argo CD, text", ("source", "helm", "valueFiles"), ["values.yaml"]),
}


@pytest.mark.parametrize("case", ELSEWHERE)
def test_values_that_are_elsewhere_are_said(case: str) -> None:
    tool, path, value = ELSEWHERE[case]
    wrapper = json.loads(json.dumps(OPENED[tool]))
    inner = wrapper["spec"]
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    result = converted(NODE, wrapper)
    assert [why for why in result.left_out if "these values of the chart are not read here" in why]
    assert any(entry.category == "todo" and path[-1] in entry.path for entry in result.leftovers)


NAMED = {
    "no values": (
        thing("helm.toolkit.fluxcd.io", "HelmRelease", {"chart": {"spec": {"chart": "gpu-operator"}}}),
        "has no values for it",
    ),
    "eksctl": (
        {"apiVersion": "eksctl.io/v1alpha5", "kind": "ClusterConfig", "managedNodeGroups": [{"name": "g"}]},
        "kubectl get nodes",
    ),
    "OLM": (
        thing("operators.coreos.com", "Subscription", {"name": "gpu-operator-certified"}),
        "clusterpolicies",
    ),
    "a DaemonSet": (
        thing("apps", "DaemonSet", {"template": {"spec": {"containers": [{"args": ["--config-file=/c"]}]}}}),
        "the configuration file that it reads",
    ),
    "patches": ({"resources": ["../base"], "patches": [{"path": "max.yaml"}]}, "kustomize build DIR"),
}


@pytest.mark.parametrize("case", NAMED)
def test_what_is_not_opened_is_named_with_what_to_do(case: str) -> None:
    wrapper, advice = NAMED[case]
    result = converted(NODE, wrapper)
    assert [why for why in result.left_out if advice in why]
    assert [
        entry
        for entry in result.leftovers
        if entry.category == "todo" and advice in f"{entry.what} {entry.remediation}"
    ]


def test_other_charts_are_elsewhere_business() -> None:
    web = thing(
        "helm.toolkit.fluxcd.io", "HelmRelease", {"chart": {"spec": {"chart": "web"}}, "values": {"a": 1}}
    )
    daemon = thing("apps", "DaemonSet", {"template": {"spec": {"containers": [{"image": "fluent-bit"}]}}})
    listed = {"resources": ["a.yaml", "b.yaml"]}
    result = converted(NODE, web, daemon, listed)
    assert result.left_out == ()


PLACEHOLDERS = {
    "sops": "ENC[AES256_GCM,data:AAAA,iv:B,tag:C,type:str]",
    "vals": "ref+vault://secret/data/gpu#/key",
    "vault": "arn:aws:iam::<path:secret/aws#account>:role/x",
    "template": "{{ .Values.version }}",
    "variable": "prefix-${CLUSTER:=lab}",
    "name": "<YOUR_CLUSTER>",
}


@pytest.mark.parametrize(
    "text",
    [
        *(
            "$REGISTRY/nvidia",
            "nvidia-$ENV",
            "op://infra/gpu/token",
            "vault:secret/data/gpu#key",
            "[[ .Tag ]]",
        ),
        *("<%= tag %>", "changeme", "ReplaceMe", "%OWNER%", "@@team@@", "__CLUSTER__"),
    ],
)
def test_other_ways_to_write_them(text: str) -> None:
    assert form_of(text) is not None


def test_each_form_has_an_example() -> None:
    assert list(PLACEHOLDERS) == [form.name for form in forms()]


@pytest.mark.parametrize("form", PLACEHOLDERS)
def test_placeholders_are_not_carried_over(form: str) -> None:
    text = PLACEHOLDERS[form]
    values = {"dcgm": {"hostPort": 5555, "secret": text}, "toolkit": {"env": [{"name": "A", "value": text}]}}
    result = converted(NODE, {**VALUES, **values})
    assert text not in result.text
    assert yaml.safe_load(result.text)["gpuOperator"]["values"]["dcgm"] == {"hostPort": 5555}
    assert {entry.path for entry in result.leftovers if entry.category == "todo"} == {
        "dcgm.secret", "toolkit.env[0].value",
    }  # fmt: skip
    assert len(result.left_out) == 2
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": text}}
    result = converted(NODE, {**quota, "spec": {"hard": {"requests.nvidia.com/gpu": "4"}}})
    assert "tenants" not in yaml.safe_load(result.text)
    assert [why for why in result.left_out if "metadata.namespace" in why]


@pytest.mark.parametrize(
    "text",
    [
        *(
            "a<b",
            "p4d.24xlarge",
            "$HOME",
            "${",
            "{}",
            "<b>bold</b> text",
            "v1.2",
            "#!/bin/sh\necho ${A}\n",
            "",
        ),
        *("a@b.example", "r.example:5000/x", "10%", "al2023@latest", "$(NODE_NAME)", "echo $FILE", "vault"),
    ],
)
def test_ordinary_texts_are_no_placeholders(text: str) -> None:
    assert form_of(text) is None


def test_what_is_noted_on_objects_and_what_is_not_read_may_have_any_text() -> None:
    script = {"kubectl.kubernetes.io/last-applied-configuration": '{"userData": "echo ${HOME}\\nexit"}'}
    node = {**NODE, "metadata": {**NODE["metadata"], "annotations": script}}  # type: ignore[dict-item]
    other = thing("apps", "Deployment", {"image": "${IMAGE}"})
    result = converted(node, other)
    assert (result.pools, result.left_out) == (("t4",), ())


def test_a_configuration_whose_name_is_a_variable_is_not_read() -> None:
    held = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"${POOL}": PLUGIN}}
    result = converted(NODE, held)
    assert [why for why in result.left_out if "it contains a variable that is not replaced" in why]


def test_a_configuration_in_a_file_of_its_own_is_not_read_with_a_placeholder() -> None:
    """Without it the nodes would have whole GPUs."""
    config = yaml.safe_load(PLUGIN.replace("replicas: 4", 'replicas: "${REPLICAS}"'))
    node = {**NODE, "metadata": {"name": "a", "labels": {**NODE["metadata"]["labels"]}}}  # type: ignore[index]
    node["metadata"]["labels"]["nvidia.com/device-plugin.config"] = "all"  # type: ignore[index]
    result = converted(node, config)
    assert result.pools == ()
    assert [why for why in result.left_out if "it contains a variable that is not replaced" in why]


def test_placeholders_in_wrapped_values_are_listed_once() -> None:
    values = VALUES | {"dcgm": {"secret": "ENC[AES256_GCM,data:A,type:str]"}}
    release = {"name": "gpus", "chart": "nvidia/gpu-operator", "values": [values]}
    result = converted(NODE, {"repositories": [], "releases": [release]})
    assert [entry.path for entry in result.leftovers if "SOPS" in entry.what] == ["dcgm.secret"]


OTHERS = {
    "AWSMachineTemplate": (
        "infrastructure.cluster.x-k8s.io/v1beta2",
        {"instanceType": "g5.xlarge"},
        "not a Karpenter pool",
    ),
    "MachineSet": ("machine.openshift.io/v1beta1", {"instanceType": "p4d.24xlarge"}, "not a Karpenter pool"),
    "ClusterConfig": ("k0s.k0sproject.io/v1beta1", {"charts": [{"name": "gpu-operator"}]}, "installs charts"),
    "ClusterProfile": ("config.projectsveltos.io/v1beta1", {"chartName": "nvidia/gpu-operator"}, "charts"),
    "NVIDIADriver": ("nvidia.com/v1alpha1", {"version": "595.91.07"}, "driver of some nodes"),
    "DaemonSet": (
        "apps/v1",
        {"image": "nvcr.io/nvidia/k8s-mig-manager:v0.15.0"},
        "component of the GPU Operator",
    ),
    "Application": (
        "argoproj.io/v1alpha1",
        {"source": {"chart": "gpu-operator", "helm": {"parameters": [{"name": "a", "value": "b"}]}}},
        "whose values in spec.source.helm.parameters can't be read here",
    ),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_what_starts_or_installs_gpus_in_other_ways_is_named(kind: str) -> None:
    version, spec, why = OTHERS[kind]
    result = converted({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, "spec": spec})
    assert [line for line in result.left_out if why in line], result.left_out
    assert {entry.category for entry in result.leftovers if entry.category != "assumed"} == {"todo"}


def test_of_several_sets_of_values_one_is_read_and_the_others_are_named() -> None:
    release = {
        "name": "gpu", "chart": "nvidia/gpu-operator",
        "values": ["./values.yaml", {"driver": {"enabled": False}}, {"toolkit": {"enabled": False}}],
        "set": [{"name": "a", "value": "b"}],
    }  # fmt: skip
    result = converted({"releases": [release]})
    assert yaml.safe_load(result.text)["gpuOperator"]["driver"] == {"enabled": False}
    left = [entry.path for entry in result.leftovers if entry.category == "todo"]
    assert left == ["releases[0].values[0]", "releases[0].values[2]", "releases[0].set"]


def test_values_in_a_config_map_that_a_release_names_are_read() -> None:
    values = {"values.yaml": "driver: {enabled: false}\ntoolkit: {enabled: true}\n"}
    held = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "v"}, "data": values}
    assert yaml.safe_load(converted(held).text)["gpuOperator"]["driver"] == {"enabled": False}
