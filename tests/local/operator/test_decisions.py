"""Tolerations, advertised resources and the operands' memory, without a cluster."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupool.environment import shipped
from gpupool.environment.catalog.load import load_catalog
from gpupool.local.operator import names, node_view, plugin_config, policy, state
from gpupool.local.operator.advertise import PluginFailure, advertise
from gpupool.local.operator.discovery import DiscoveryFailure, discover
from gpupool.local.operator.hardware import Hardware
from gpupool.local.operator.mig_config import Layout
from gpupool.local.operator.plugin_config import PluginConfig
from gpupool.local.operator.state import OperandMemory
from gpupool.local.operator.strict_yaml import ConfigError

A100 = Hardware(load_catalog()["a100-80gb"], 8, 81920, "p4de.24xlarge")
DRIVER = "595.91.07"


def test_it_reads_the_cluster_and_not_the_plan() -> None:
    """The operator is the independent check of what is generated, so it must not share its code."""
    code = (
        "import sys, gpupool.local.operator.__main__\n"
        "print(*[name for name in sys.modules if name.split('.')[0] in ('gpupool', 'generators', 'pulumi')])"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=shipped.library(), capture_output=True, text=True, check=True)
    others = {name for name in done.stdout.split() if not name.startswith("gpupool.local.operator")}
    assert others <= {
        "gpupool",
        "gpupool.environment",
        "gpupool.environment.catalog",
        "gpupool.environment.catalog.load",
        "gpupool.environment.catalog.models",
        "gpupool.live",
        "gpupool.live.cluster",
        "gpupool.live.cluster.async_api",
        "gpupool.live.cluster.kube_api",
        "gpupool.live.cluster.kubeconfig",
        "gpupool.live.cluster.work_queue",
        "gpupool.findings",
        "gpupool.findings.errors",
        "gpupool.findings.finding",
        "gpupool.findings.severity",
        "gpupool.local",
        "gpupool.local.watch",
        "gpupool.findings.terminal",
    }


@pytest.mark.parametrize(
    ("toleration", "fits"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "gpu", "operator": "Exists"}, True),
        ({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "gpu", "operator": "Equal", "value": "mig", "effect": "NoSchedule"}, True),
        ({"key": "gpu", "value": "mig"}, True),
        ({"key": "gpu", "value": "true"}, False),
        ({"key": "other", "operator": "Exists"}, False),
    ],
)
def test_tolerations(toleration: dict[str, str], fits: bool) -> None:
    taint = {"key": "gpu", "value": "mig", "effect": "NoSchedule"}
    assert (policy.tolerated([taint], [toleration], running=False) is None) is fits


def test_only_no_execute_drives_running_operands_off() -> None:
    for effect, goes in (("NoSchedule", False), ("NoExecute", True), ("PreferNoSchedule", False)):
        taint = {"key": "x", "effect": effect}
        assert (policy.tolerated([taint], [], running=True) == taint) is goes
    not_ready = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    assert policy.tolerated([not_ready], [], running=False) is None


def test_the_operator_says_where_operands_may_go_and_leaves_what_is_set() -> None:
    plugin, manager = "nvidia.com/gpu.deploy.device-plugin", "nvidia.com/gpu.deploy.mig-manager"
    first = node_view.operator_labels({}, mig_capable=True)
    assert set(first.values()) == {"true"}
    assert {"nvidia.com/gpu.present", plugin, manager} <= first.keys()
    assert manager not in node_view.operator_labels({}, mig_capable=False)
    assert node_view.operator_labels({plugin: "false"}, mig_capable=True)[plugin] == "false"
    left = node_view.operator_labels({names.OPT_OUT_LABEL: "false", plugin: "true"}, mig_capable=True)
    assert left == {"nvidia.com/gpu.present": "true", plugin: None}


@given(st.integers(2, 48), st.booleans(), st.sampled_from(["time-slicing", "mps"]))
def test_sharing_multiplies(replicas: int, rename: bool, method: str) -> None:
    config = PluginConfig(None, method, {"nvidia.com/gpu": replicas}, rename)
    resources = advertise(A100, [None] * 8, config, "none")
    labels = discover(A100, [None] * 8, config, "none", DRIVER)
    name = "nvidia.com/gpu.shared" if rename else "nvidia.com/gpu"
    assert resources[name] == 8 * replicas
    assert sum(resources.values()) == 8 * replicas
    assert labels["nvidia.com/gpu.replicas"] == str(replicas)
    assert labels["nvidia.com/gpu.product"].endswith("-SHARED") is not rename


@pytest.mark.parametrize(
    ("layouts", "strategy", "expected"),
    [
        ([None, None], "mixed", {"nvidia.com/gpu": 2}),
        ([{"1g.10gb": 7}, None], "mixed", {"nvidia.com/gpu": 1, "nvidia.com/mig-1g.10gb": 7}),
        ([{"1g.10gb+me": 1}, {}], "mixed", {"nvidia.com/gpu": 0, "nvidia.com/mig-1g.10gb.me": 1}),
        ([{"1g.10gb": 7}, {"1g.10gb": 7}], "single", {"nvidia.com/gpu": 14}),
        ([{"1g.10gb": 7}, None], "none", {"nvidia.com/gpu": 2}),
    ],
)
def test_resources_by_strategy(layouts: list[Layout], strategy: str, expected: dict[str, int]) -> None:
    assert advertise(A100, layouts, PluginConfig(), strategy) == expected


@pytest.mark.parametrize(
    "layouts", [[{"1g.10gb": 7}, None], [{"1g.10gb": 7}, {"7g.80gb": 1}], [{"1g.10gb": 7}, {}], [{}, {}]]
)
def test_single_needs_one_profile_everywhere(layouts: list[Layout]) -> None:
    with pytest.raises(PluginFailure, match="the same one profile"):
        advertise(A100, layouts, PluginConfig(), "single")
    labels = discover(A100, layouts, PluginConfig(), "single", DRIVER)
    assert labels["nvidia.com/gpu.product"].endswith("-MIG-INVALID")
    assert labels["nvidia.com/gpu.count"] == "0"


def test_mps_needs_whole_gpus() -> None:
    config = PluginConfig("mixed", "mps", {"nvidia.com/gpu": 2})
    with pytest.raises(PluginFailure, match="MIG devices"):
        advertise(A100, [{"1g.10gb": 7}], config, "single")
    with pytest.raises(DiscoveryFailure, match="mig devices"):
        discover(A100, [{"1g.10gb": 7}], config, "single", DRIVER)


def test_mps_is_refused_wherever_the_strategy_is_mixed() -> None:
    config = PluginConfig(None, "mps", {"nvidia.com/gpu": 2})
    with pytest.raises(PluginFailure, match="mixed is not supported with MPS"):
        advertise(A100, [None], config, "mixed")
    assert discover(A100, [None], config, "mixed", DRIVER)["nvidia.com/mps.capable"] == "true"


@pytest.mark.parametrize(
    ("arguments", "offered"), [([], "mixed"), (["unset MIG_STRATEGY; exec /bin/entrypoint.sh"], None)]
)
def test_a_start_of_ones_own_takes_the_strategy_from_the_plugin_alone(
    arguments: list[str], offered: str | None
) -> None:
    spec = {"mig": {"strategy": "mixed"}, "devicePlugin": {"args": arguments}}
    found = policy.read({"metadata": {"name": "cluster-policy"}, "spec": spec})
    assert (found.plugin_strategy, found.mig_strategy) == (offered, "mixed")


def test_every_label_is_one_that_kubernetes_takes() -> None:
    layouts: list[Layout] = [{"1g.10gb+me": 1, "3g.40gb": 1}] * 8
    for model in load_catalog().models.values():
        hardware = Hardware(model, 2, model.memory_mib, "machine")
        mine = layouts[:2] if model.key == "a100-80gb" else [None, None]
        for key, value in discover(hardware, mine, PluginConfig(), "mixed", DRIVER).items():
            assert len(key.split("/")[1]) <= 63, key
            assert len(value) <= 63, key
            assert "+" not in key + value


def test_the_memory_of_the_operands_survives_and_damage_is_forgotten() -> None:
    memory = OperandMemory(plugin_loaded="x/ts", plugin_config=PluginConfig("mixed"), layouts=[None, {}])
    text = memory.as_text()
    node = {"metadata": {"annotations": {"simulated.gpupool.dev/state": text}}}
    assert state.read(node) == memory
    for damaged in ("{", "[]", '{"unknown": 1}', ""):
        node["metadata"]["annotations"]["simulated.gpupool.dev/state"] = damaged
        assert state.read(node) == OperandMemory()


@given(st.text(max_size=60))
def test_no_text_makes_the_parser_fall_over(text: str) -> None:
    try:
        plugin_config.parse(text)
    except ConfigError:
        return


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("version: v1\nsharing: {timeSlicing: {}, mps: {}}", "exclude each other"),
        ("version: v1\nsharing: {timeSlicing: {}}", "at least one"),
        ("version: v1\nsharing: {mps: {resources: [{name: nvidia.com/mig-1g.10gb, replicas: 2}]}}", "whole"),
        ("version: v1\nsharing: {timeSlicing: {resources: [{name: gpu, replicas: 2}]}}", "name"),
        (
            "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: true}]}}",
            "replicas",
        ),
        (
            "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replica: 2}]}}",
            "unknown replica",
        ),
        (
            "version: v1\nsharing: {timeSlicing: {failRequestsGreaterThanOne: maybe, resources: []}}",
            "true or false",
        ),
        ("version: v1\nversion: v1", "given twice"),
        ("version: v1\nflag: {}", "unknown flag"),
        ("version: 2026-13-13", "not YAML"),
        ("{[1]: 2}", "not YAML"),
        ("[" * 5000, "not YAML"),
    ],
)
def test_plugin_configurations_that_can_not_be_meant(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        plugin_config.parse(text)
