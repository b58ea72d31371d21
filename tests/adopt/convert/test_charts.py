"""Helm values of several charts: whose they are, and which configuration they choose."""

from __future__ import annotations

import pytest
import yaml

from gpupool.adopt.convert.convert import Conversion, convert
from gpupool.adopt.convert.documents import parse_documents
from gpupool.adopt.convert.draft import Choices

POOL = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: gpus}
spec:
  limits: {nodes: "2"}
  template:
    metadata: {labels: {LABELS}}
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
      requirements:
        - {key: node.kubernetes.io/instance-type, operator: In, values: [g5.xlarge]}
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
"""


def shared(replicas: int) -> str:
    resources = f"[{{name: nvidia.com/gpu, replicas: {replicas}}}]"
    return f"{{version: v1, sharing: {{timeSlicing: {{resources: {resources}}}}}}}"


def plugin_map(*replicas: tuple[str, int], **more: object) -> str:
    held = {name: shared(number) for name, number in replicas}
    return yaml.safe_dump({"config": {"map": held, **more}})


def converted(*texts: str, labels: str = "") -> Conversion:
    documents = []
    for number, text in enumerate((POOL.replace("LABELS", labels), *texts)):
        found, findings = parse_documents(f"{number}.yaml", text.encode())
        assert not findings
        documents += found
    return convert(documents, Choices())


def sharing(result: Conversion) -> object:
    (pool,) = yaml.safe_load(result.text)["pools"]
    return pool.get("sharing", {}).get("replicas")


def said(result: Conversion) -> str:
    return "\n".join(map(str, result.leftovers))


@pytest.mark.parametrize(
    ("values", "replicas"),
    [
        (plugin_map(("big", 8)), 8),  # the only one
        (plugin_map(("big", 8), ("default", 3)), 3),  # the one called default
        (plugin_map(("big", 8), ("small", 3)), None),  # neither
        (plugin_map(("big", 8), ("small", 3), default="small"), 3),
        (plugin_map(("big", 8), fallbackStrategies=["named"]), None),
        (yaml.safe_dump({"nvidia-device-plugin": yaml.safe_load(plugin_map(("big", 5)))}), 5),
    ],
)
def test_the_chart_of_the_device_plugin_chooses_a_configuration(values: str, replicas: int | None) -> None:
    result = converted(values)
    assert sharing(result) == replicas
    assert "operator" not in yaml.safe_load(result.text), "these are not values of the operator"
    assert "gpuOperator" not in yaml.safe_load(result.text)


def test_a_nodes_label_goes_before_the_default() -> None:
    values = plugin_map(("big", 8), ("small", 3), default="small")
    assert sharing(converted(values, labels="nvidia.com/device-plugin.config: big")) == 8


def test_a_config_map_of_its_own_is_read_by_its_name() -> None:
    def config_map(name: str, replicas: int) -> str:
        data = {"any": shared(replicas)}
        return yaml.safe_dump(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
        )

    values = "config: {name: right}\n"
    assert sharing(converted(config_map("wrong", 9), config_map("right", 4), values)) == 4
    assert "no ConfigMap of that name" in said(converted(values))


def test_a_default_that_is_not_there_is_wrong() -> None:
    result = converted(plugin_map(("big", 8), ("small", 3), default="smal"))
    assert sharing(result) is None
    assert "config.default = smal: unknown device-plugin configuration" in said(result)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ("sleepInterval: 60s\n", "values of the chart gpu-feature-discovery"),
        ("master: {replicaCount: 1}\nworker: {}\n", "values of the chart node-feature-discovery"),
        ("node-feature-discovery: {worker: {}}\n", "values of the chart node-feature-discovery"),
        (
            "replicaCount: 1\ningress: {}\n",
            "not part of a GPU pool; its fields are replicaCount, ingress",
        ),
    ],
)
def test_what_is_neither_is_called_by_its_name(values: str, words: str) -> None:
    assert words in said(converted(values))


def test_the_operators_own_values_stay_the_operators() -> None:
    text = yaml.safe_dump(
        {"devicePlugin": {"config": {"data": {"any": shared(4)}, "default": "any"}}, "gfd": {}}
    )
    result = converted(text)
    assert sharing(result) == 4
    assert "device plugin's chart" not in said(result)


def operator(**values: object) -> str:
    return yaml.safe_dump({"toolkit": {"enabled": True}, **values})


@pytest.mark.parametrize(
    ("repository", "kept"),
    [("nvcr.io/nvidia/k8s", False), ("nvcr.io/nvidia-mirror", True), ("mirror.example.com/nvidia", True)],
)
def test_of_pinned_images_only_a_mirror_is_carried_over(repository: str, kept: bool) -> None:
    plugin = {"repository": repository, "image": "k8s-device-plugin", "version": "v0.18.1"}
    result = converted(operator(devicePlugin=plugin, dcgm={"version": 4.4}, gfd={"version": ""}))
    section = yaml.safe_load(result.text)["gpuOperator"]
    mirror = {"devicePlugin": {"repository": repository}} if kept else {}
    assert section == {"values": {"toolkit": {"enabled": True}, **mirror}}
    left = {entry.path for entry in result.leftovers if entry.category == "left"}
    assert left == {"devicePlugin.image", "devicePlugin.version", "dcgm.version"}


@pytest.mark.parametrize(("manager", "reported"), [("v0.13.1", True), ("v0.12.2", False)])
def test_the_release_is_chosen_and_that_of_the_images_named(manager: str, reported: bool) -> None:
    pins = {"devicePlugin": {"version": "v0.18.1"}, "migManager": {"version": manager}}
    result = converted(operator(**pins, driver={"version": "580.105.08"}))
    said = [str(entry) for entry in result.leftovers if entry.category == "assumed"]
    (chosen,) = [line for line in said if "gpuOperator.version" in line]
    assert "v26.7.0, which gpupool is tested with" in chosen
    assert ("to stay with v25.10.1" in chosen) == reported
    assert any("driver.version: it is kept" in line for line in said)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (
            "renameByDefault: true",
            "the plugin ignores it there; move it to sharing.timeSlicing.renameByDefault",
        ),
        ("deviceListStrategy: envvar", "the plugin ignores it: unknown flag"),
        ("failOnInitError: false", "gpupool leaves it to the device plugin's default"),
    ],
)
def test_flags_that_the_plugin_does_not_have(flags: str, words: str) -> None:
    text = shared(2).replace("{version: v1,", f"{{version: v1, flags: {{migStrategy: none, {flags}}},")
    result = converted(text, labels="nvidia.com/device-plugin.config: '1'")
    assert words in said(result)
    assert sharing(result) == 2
