"""The simulated operator ignores what the real one ignores, and runs where the real one would."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

from gpupool.local import processes
from gpupool.local.control_plane import ControlPlane

MakeNode = Callable[..., str]
TYPE = "node.kubernetes.io/instance-type"
T4 = "g4dn.12xlarge"
A100 = "p4de.24xlarge"
PLUGIN = "nvidia.com/device-plugin.config"
MIG = "nvidia.com/mig.config"
STATE = "nvidia.com/mig.config.state"
FAIL = "simulated.gpupool.dev/fail"
DELAY = "simulated.gpupool.dev/delay"
SLICE = "nvidia.com/mig-3g.40gb"
TS3 = "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 3}]}}\n"


def test_an_edited_config_map_does_nothing_until_the_plugin_restarts(
    operator: Any, make_node: MakeNode
) -> None:
    """gpu-operator issue 1144; what restarts it: another name in the policy, or the node's label."""
    node, other = make_node("one", {TYPE: T4, PLUGIN: "ts8"}), make_node("two", {TYPE: T4, PLUGIN: "ts8"})
    operator.offers(node, gpu=32)
    operator.offers(other, gpu=32)
    operator.plugin_configs(ts8=TS3)
    operator.stays(
        "the old configuration is in force", lambda: operator.resources(node)["nvidia.com/gpu"] == 32
    )
    operator.set_label(node, PLUGIN, "exclusive")
    operator.offers(node, gpu=4)
    operator.set_label(node, PLUGIN, "ts8")
    operator.offers(node, gpu=12)
    assert operator.resources(other)["nvidia.com/gpu"] == 32, "only the restarted plugin reads it"
    operator.plugin_configs("plugin-2", ts8=TS3)
    operator.policy(plugin_map="plugin-2")
    operator.offers(other, gpu=12)


def test_a_restart_of_the_simulation_is_no_restart_of_the_plugin(
    operator: Any, make_node: MakeNode, control_plane: ControlPlane
) -> None:
    node = make_node("one", {TYPE: T4, PLUGIN: "ts8"})
    operator.offers(node, gpu=32)
    operator.plugin_configs(ts8=TS3)
    pid = next(part.pid for part in control_plane.status().components if part.name == "gpu-operator")
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    while processes.start_mark(pid):
        time.sleep(0.02)
    assert control_plane.up().healthy
    operator.stays(
        "the old configuration is in force", lambda: operator.resources(node)["nvidia.com/gpu"] == 32
    )


def test_without_policy_or_config_map_nothing_runs(unset_operator: Any, make_node: MakeNode) -> None:
    operator = unset_operator

    def policy_state() -> str:
        found = operator.kube.get("nvidia.com/v1", "ClusterPolicy", "cluster-policy")
        return str(found.get("status", {}).get("state"))

    node = make_node("one", {TYPE: T4, PLUGIN: "ts8"})
    operator.stays("no GPU is offered", lambda: not any(operator.resources(node).values()), 1.0)
    operator.policy()
    operator.wait("the missing ConfigMap is named", lambda: "no ConfigMap plugin" in operator.error(node))
    operator.wait("the policy is not ready", lambda: policy_state() == "notReady")
    operator.settings()
    operator.offers(node, gpu=32)
    operator.wait("the policy is ready", lambda: policy_state() == "ready")
    operator.kube.api.delete("nvidia.com/v1", "ClusterPolicy", "cluster-policy")
    operator.offers(node)
    operator.wait("its labels are gone", lambda: "nvidia.com/gpu.product" not in operator.labels(node))
    assert operator.labels(node)[PLUGIN] == "ts8", "the label was not the operator's"


def test_an_untolerated_taint_keeps_the_operands_away(operator: Any, make_node: MakeNode) -> None:
    taint = {"key": "team", "value": "vision", "effect": "NoSchedule"}
    node = make_node("one", {TYPE: T4, PLUGIN: "ts8"}, taints=[taint])
    tolerated = make_node("two", {TYPE: T4, PLUGIN: "ts8"}, taints=[taint | {"key": "gpu"}])
    operator.offers(tolerated, gpu=32)
    assert not any(operator.resources(node).values())
    assert "nvidia.com/gpu.product" not in operator.labels(node)
    both = [{"key": "gpu", "operator": "Exists"}, {"key": "team", "value": "vision", "effect": "NoSchedule"}]
    operator.policy(daemonsets={"tolerations": both})
    operator.offers(node, gpu=32)


def test_operands_fail_and_delay_when_asked_to(operator: Any, make_node: MakeNode) -> None:
    broken = make_node("broken", {TYPE: T4, PLUGIN: "ts8"}, {FAIL: "plugin"})
    no_mig = make_node("no-mig", {TYPE: A100, PLUGIN: "mixed", MIG: "split"}, {FAIL: "mig"})
    operator.wait("the plugin fails", lambda: "made to fail" in operator.error(broken))
    operator.wait("the MIG manager fails", lambda: operator.labels(no_mig).get(STATE) == "failed")
    assert not any(operator.resources(broken).values())
    slow = make_node("slow", {TYPE: A100, PLUGIN: "mixed", MIG: "split"}, {DELAY: "5s"})

    def dawdles() -> bool:
        node = operator.kube.node(slow)
        offers = [count for name, count in node["status"]["allocatable"].items() if name == SLICE]
        return node["metadata"]["labels"].get(STATE) == "pending" and not any(map(int, offers))

    operator.wait("the slow one is pending and offers nothing", dawdles)
    operator.offers(slow, **{"mig-3g.40gb": 8, "mig-2g.20gb": 16})
    operator.annotate(broken, FAIL, None)
    operator.offers(broken, gpu=32)


def test_it_takes_away_what_it_brought_and_nothing_else(operator: Any, make_node: MakeNode) -> None:
    own = {"nvidia.com/my-label": "mine", "team": "vision"}
    node = make_node("one", {TYPE: T4, PLUGIN: "ts8"} | own)
    operator.wait("it is labelled", lambda: "nvidia.com/gpu.count" in operator.labels(node))
    operator.set_label(node, "nvidia.com/gpu.deploy.operands", "false")
    operator.wait("it is left alone", lambda: "nvidia.com/gpu.count" not in operator.labels(node))
    operator.offers(node)
    assert own.items() <= operator.labels(node).items()


def test_a_hundred_nodes_are_served(operator: Any) -> None:
    count = 100
    for number in range(count):
        meta = {"name": f"node-{number}", "labels": {TYPE: A100, PLUGIN: "mixed", MIG: "split"}}
        operator.kube.api.create({"apiVersion": "v1", "kind": "Node", "metadata": meta})

    def all_offer() -> bool:
        offered = [node["status"].get("allocatable", {}).get(SLICE) for node in operator.kube.nodes()]
        assert offered.count("8") == count, f"{offered.count('8')} of {count}"
        return True

    operator.wait("every node offers its slices", all_offer)
