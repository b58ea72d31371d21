"""Drift with a specific repair: what is done, what must be reported, what must be gone before it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpupool.environment.plan.model import POOL_LABEL
from tests.cluster.drift.world import World

ADMISSION = "admissionregistration.k8s.io/v1"
PLUGIN, MIG = "nvidia.com/device-plugin.config", "nvidia.com/mig.config"
FAIL = "simulated.gpupool.dev/fail"
OURS = {"app.kubernetes.io/managed-by": "gpupool", "gpupool.dev/environment": "drifting"}
LATE = 1800.0
"""Seconds after which no change can be in progress."""


@dataclass(frozen=True)
class Case:
    """One kind of drift."""

    title: str
    inject: Callable[[World], object]
    layer: str
    kind: str
    reason: str
    """A regular expression."""
    repair: str
    """A regular expression; {node} stands for the node of `pool`."""
    pool: str = "notebooks"
    later: float = 0.0
    cause: Callable[[World], object] = lambda _: None
    """Removes what no command fixes: a broken machine, a finalizer."""


def _foreign_node(name: str, pool: str) -> Callable[[World], object]:
    def inject(world: World) -> None:
        metadata = {"name": name, "labels": {POOL_LABEL: pool}}
        world.api.create({"apiVersion": "v1", "kind": "Node", "metadata": metadata})

    return inject


def _label(pool: str, key: str, value: str | None) -> Callable[[World], object]:
    return lambda world: world.label(world.node(pool), key, value)


def _taints(change: Callable[[list[dict[str, str]]], list[dict[str, str]]]) -> Callable[[World], object]:
    def inject(world: World) -> None:
        node = world.node("notebooks")
        taints = world.kube.node(node)["spec"].get("taints", [])
        world.edit("v1", "Node", node, {"spec": {"taints": change(taints)}})

    return inject


def _mig_fails(world: World) -> None:
    node = world.node("models")
    world.annotate(node, FAIL, "mig")
    world.label(node, MIG, "all-disabled")
    world.kube.wait(
        "the MIG manager has failed",
        lambda: world.kube.node(node)["metadata"]["labels"].get(f"{MIG}.state") == "failed",
    )
    world.label(node, MIG, "1x3g.40gb_2x2g.20gb")


def _plugin_fails(world: World) -> None:
    node = world.node("notebooks")
    world.annotate(node, FAIL, "plugin")
    world.label(node, PLUGIN, "gpupool.default")
    world.offers(node, "nvidia.com/gpu", 0)
    world.label(node, PLUGIN, "notebooks")


def _works_again(pool: str) -> Callable[[World], object]:
    return lambda world: world.annotate(world.node(pool), FAIL, None)


def _typed(world: World) -> str:
    """Five replicas, typed into the ConfigMap; the node's plugin has read them. The text before."""
    found, node = world.config_map("gpupool-device-plugin"), world.node("notebooks")
    before = str(found["data"]["notebooks"])
    _write(world, before.replace("replicas: 4", "replicas: 5"))
    world.restart_plugin(node, "notebooks")
    world.offers(node, "nvidia.com/gpu", 5)
    return before


def _typed_and_put_back(world: World) -> None:
    _write(world, _typed(world))


def _write(world: World, text: str) -> None:
    name = world.config_map("gpupool-device-plugin")["metadata"]["name"]
    # Under the name of `up`, or the repair would have to begin with the ConfigMap.
    world.edit("v1", "ConfigMap", name, {"data": {"notebooks": text}}, "gpu-operator")


def _policy(body: object) -> Callable[[World], object]:
    return lambda world: world.edit("nvidia.com/v1", "ClusterPolicy", "cluster-policy", body)


def _overlay(weight: int) -> Callable[[World], object]:
    requirement = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["g4dn.xlarge"]}
    spec = {"weight": weight, "requirements": [requirement], "capacity": {"nvidia.com/gpu": "7"}}
    return lambda world: world.kube.apply(
        {
            "apiVersion": "karpenter.sh/v1alpha1",
            "kind": "NodeOverlay",
            "metadata": {"name": "theirs"},
            "spec": spec,
        }
    )


def _node_pool(world: World) -> None:
    found = world.api.get("karpenter.sh/v1", "NodePool", "batch")
    body = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "batch-of-theirs"},
        "spec": found["spec"],
    }
    world.api.create(body)


def _claim(world: World) -> None:
    """A claim whose node waits for a startup taint that is never removed."""
    made = world.api.list("karpenter.sh/v1", "NodeClaim")
    pattern = next(row for row in made if row["metadata"]["labels"]["karpenter.sh/nodepool"] == "notebooks")
    spec = {
        **pattern["spec"],
        "startupTaints": [{"key": "example.com/never-ready", "value": "x", "effect": "NoSchedule"}],
    }
    metadata = {key: pattern["metadata"][key] for key in ("annotations", "labels", "ownerReferences")}
    metadata["name"] = "notebooks-stuck"
    world.api.create(
        {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": metadata, "spec": spec}
    )


def _full(world: World) -> None:
    for number in range(5):
        world.api.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": f"many-{number}",
                    "namespace": "default",
                    "labels": {"gpupool.dev/shares-gpu": "true"},
                },
                "spec": {
                    "nodeSelector": {POOL_LABEL: "notebooks"},
                    "tolerations": [{"operator": "Exists"}],
                    "terminationGracePeriodSeconds": 0,
                    "containers": [
                        {
                            "name": "work",
                            "image": "example/work:1",
                            "resources": {"limits": {"nvidia.com/gpu": 1}},
                        }
                    ],
                },
            }
        )


def _end_jobs(world: World) -> None:
    for number in range(5):
        world.api.delete("v1", "Pod", f"many-{number}", "default", grace=0)


def _condition(text: str) -> Callable[[World], object]:
    item = {"name": "not-me", "expression": text}
    patch = [{"op": "add", "path": "/spec/matchConditions/-", "value": item}]
    return lambda world: world.edit(ADMISSION, "ValidatingAdmissionPolicy", "pin-images", patch)


def _extra(world: World) -> None:
    metadata = {"name": "left-over", "namespace": "gpupool-system", "labels": OURS}
    world.api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})


_MISSING_TAINT: Callable[[list[dict[str, str]]], list[dict[str, str]]] = lambda _: []  # noqa: E731
_EVICTS = {"key": "example.com/repair", "value": "yes", "effect": "NoExecute"}
_OTHER = {"spec": {"devicePlugin": {"config": {"name": "somebody-elses"}}}}
_WEAK = "gpu-pods-name-a-pool"
_DISABLED = "all-disabled"

CASES = (
    Case(
        "object too many",
        _extra,
        "objects",
        "extra",
        "created by",
        r"kubectl -n gpupool-system delete configmap left-over",
    ),
    Case(
        "binding weakened",
        lambda w: w.edit(
            ADMISSION, "ValidatingAdmissionPolicyBinding", _WEAK, {"spec": {"validationActions": ["Audit"]}}
        ),
        "policies",
        "changed",
        r"\[Deny\] -> \[Audit\] .*set by kubectl-edit: weakened: violations are no longer refused",
        "kubectl patch",
    ),
    Case(
        "policy switched off by a condition",
        _condition("false"),
        "policies",
        "added",
        "added by kubectl-edit",
        "kubectl patch",
    ),
    Case(
        "node without a label of its pool",
        _label("notebooks", "workload-type", None),
        "nodes",
        "label",
        "it has no label workload-type",
        "kubectl label node {node} workload-type=notebooks",
    ),
    Case(
        "node without its taint",
        _taints(_MISSING_TAINT),
        "nodes",
        "taint",
        "any pod can run",
        "kubectl taint node {node}",
    ),
    Case(
        "node with the label of no pool",
        _foreign_node("stray", "gone"),
        "nodes",
        "unknown-pool",
        'says "gone", but there is no such pool',
        "kubectl label node stray gpupool.dev/pool-",
    ),
    Case(
        "node that is not of the pool whose label it has",
        _foreign_node("foreign-node", "notebooks"),
        "nodes",
        "foreign-node",
        "was not started for it",
        "kubectl label node foreign-node gpupool.dev/pool-",
    ),
    Case(
        "wrong device-plugin configuration",
        _label("notebooks", PLUGIN, "batch"),
        "slices",
        "wrong-config-key",
        'says "batch", the device plugin is to use "notebooks"; set by kubectl-edit',
        "kubectl label node {node}",
    ),
    Case(
        "wrong MIG layout",
        _label("models", MIG, _DISABLED),
        "slices",
        "wrong-config-key",
        'the MIG manager is to use "1x3g',
        "kubectl label node {node}",
        pool="models",
    ),
    Case(
        "MIG manager failed",
        _mig_fails,
        "slices",
        "mig-failed",
        r"mig.config.state=failed\).*made to fail",
        "kubectl wait",
        pool="models",
        cause=_works_again("models"),
    ),
    Case(
        "device plugin crashed",
        _plugin_fails,
        "slices",
        "plugin-crashed",
        "offers nothing, planned are 4 gpu: the device plugin does not run: .*made to fail",
        "kubectl wait",
        cause=_works_again("notebooks"),
    ),
    Case(
        "operands kept off by a label",
        _label("notebooks", "nvidia.com/gpu.deploy.operands", "false"),
        "slices",
        "operands-off",
        "gpu.deploy.operands=false keeps",
        "kubectl label node {node}",
    ),
    Case(
        "device plugin kept off by a label",
        _label("notebooks", "nvidia.com/gpu.deploy.device-plugin", "false"),
        "slices",
        "operands-off",
        "gpu.deploy.device-plugin=false keeps",
        "kubectl label node {node} nvidia.com/gpu.deploy.device-plugin-",
    ),
    Case(
        "operands driven off by a taint",
        _taints(lambda taints: [*taints, _EVICTS]),
        "slices",
        "operands-off",
        "do not tolerate the taint example.com/repair=yes:NoExecute",
        "kubectl taint node {node} example.com/repair:NoExecute-",
    ),
    Case(
        "device plugin not restarted",
        _typed_and_put_back,
        "slices",
        "plugin-not-restarted",
        "offers 5 gpu, planned are 4 gpu: .*was not restarted after its configuration changed",
        "kubectl wait",
        later=LATE,
    ),
    Case(
        "operator's strategy overrides the pools'",
        _policy({"spec": {"mig": {"strategy": "single"}}}),
        "slices",
        "wrong-strategy",
        'mig.strategy "single" overrides',
        "kubectl patch clusterpolicy",
        pool="models",
    ),
    Case(
        "driver too old",
        _policy({"spec": {"driver": {"version": "418.40.04"}}}),
        "slices",
        "driver-too-old",
        "driver 418.40.04 is too old for",
        "kubectl patch clusterpolicy",
        pool="models",
    ),
    Case(
        "overlay of somebody else, as heavy as ours",
        _overlay(100),
        "karpenter",
        "not-accepted",
        "rejects it",
        "kubectl delete nodeoverlay theirs",
    ),
    Case(
        "overlay of somebody else, heavier",
        _overlay(200),
        "karpenter",
        "overlay-over",
        "has a higher weight",
        "kubectl delete nodeoverlay",
    ),
    Case(
        "NodePool beside ours",
        _node_pool,
        "karpenter",
        "node-pool-beside",
        "label of pool batch",
        "kubectl delete nodepool",
    ),
    Case(
        "claim that never becomes a node",
        _claim,
        "karpenter",
        "claim-stuck",
        "has not become complete",
        "kubectl delete nodeclaim",
        later=LATE,
    ),
    Case(
        "pool at its limit",
        _full,
        "karpenter",
        "at-limit",
        r"notebooks: 1 of 1 nodes.* 1 pods wait",
        "or end jobs",
        later=LATE,
        cause=_end_jobs,
    ),
    Case(
        "second ClusterPolicy",
        lambda w: w.kube.apply(_second_policy(w)),
        "others",
        "second-cluster-policy",
        "uses the oldest",
        "kubectl delete clusterpolicy second",
    ),
    # The next two follow on nodes from edits of the operator's settings, and are fixed with those.
    Case(
        "replicas were changed manually",
        _typed,
        "slices",
        "replicas-by-hand",
        "the ConfigMap has 5 per GPU, the file 4",
        "gpupool refresh",
    ),
    Case(
        "operator pointed at another configuration",
        _policy(_OTHER),
        "slices",
        "operator-settings",
        "devicePlugin uses ConfigMap somebody-elses",
        "gpupool refresh",
    ),
)


def _second_policy(world: World) -> dict[str, object]:
    found = world.api.get("nvidia.com/v1", "ClusterPolicy", "cluster-policy")
    return {
        "apiVersion": "nvidia.com/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": "second"},
        "spec": found["spec"],
    }
