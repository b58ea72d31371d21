"""Rules over a whole bundle: the Plan and its manifests together, for what no single object shows.

They are pure functions. What one object shows by itself belongs into a policy, not here. RULES and
ENVIRONMENT_RULES are the only places where rules are registered.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpupool.rules import (
    cost,
    counts,
    environments,
    identity,
    operator_configs,
    planned_pools,
    priority_classes,
    quotas,
    references,
    taints,
)
from gpupool.rules.bundle import EXTERNAL, Bundle, BundleObject, Release, release_of
from gpupool.rules.rule import Found, Rule
from vapcheck import PolicyFinding

_DECLARE = f"or, where others make it, name it in the annotation {EXTERNAL} of an object of the bundle"

RULES: tuple[Rule[Bundle], ...] = (
    Rule(
        name="unique-objects",
        title="No object appears twice in a bundle",
        why="Whichever is applied last wins, and every later run may change it back.",
        fix="Keep one of the two, or rename one.",
        check=identity.unique,
    ),
    Rule(
        name="namespaces-exist",
        title="Every namespace that is used is created",
        why="The API server refuses objects in a namespace that isn't there, in the middle of a rollout.",
        fix=f"Add the Namespace, put its name right, {_DECLARE}.",
        check=references.namespaces,
        supposes_whole=True,
    ),
    Rule(
        name="priorities-exist",
        title="Every PriorityClass that is named exists",
        why="Pods with an unknown priority class are refused; a quota for one never counts anything.",
        fix=f"Add the priority to the environment, put its name right, {_DECLARE}.",
        check=references.priorities,
        supposes_whole=True,
    ),
    Rule(
        name="accounts-exist",
        title="Every service account and role that is named exists",
        why="Pods of an unknown account are refused, and a binding to an unknown role gives no rights.",
        fix=f"Add it, put its name right, {_DECLARE}.",
        check=references.accounts,
        supposes_whole=True,
    ),
    Rule(
        name="configs-exist",
        title="Every ConfigMap, and every key of one, that pods read exists",
        why="The pod waits in CreateContainerConfigError or ContainerCreating for ever.",
        fix=f"Add it, put its name right, mark it optional, {_DECLARE}.",
        check=references.configs,
        supposes_whole=True,
    ),
    Rule(
        name="secrets-exist",
        title="Every Secret that pods read is known to exist",
        why="The pod waits for it for ever; and as Secrets are seldom in files, reviews do not show it.",
        fix=f"Add what makes it, put its name right, mark it optional, {_DECLARE}.",
        level="warn",
        check=references.secrets,
        supposes_whole=True,
    ),
    Rule(
        name="node-classes-exist",
        title="NodePools name a node class and NodeOverlays a NodePool that exist",
        why="A NodePool without its node class starts nothing; an overlay of no NodePool changes nothing.",
        fix=f"Add it, put its name right, {_DECLARE}.",
        check=references.node_classes,
        supposes_whole=True,
    ),
    Rule(
        name="admission-complete",
        title="Bindings name a policy and parameters that exist",
        why="A binding of no policy enforces nothing; one without parameters refuses or allows all.",
        fix=f"Add it, put its name right, {_DECLARE}.",
        check=references.admission,
        supposes_whole=True,
    ),
    Rule(
        name="selectors-match",
        title="Selectors of NetworkPolicies, PodDisruptionBudgets and Services choose some pod",
        why="A rule about no pod protects nothing, and looks as if it did.",
        fix="Put the selector right, or remove the object; where others make the pods, ignore this.",
        level="warn",
        check=references.selectors,
        supposes_whole=True,
    ),
    Rule(
        name="device-plugin-configs-exist",
        title="Nodes are labelled with device-plugin configurations that exist",
        why="The device plugin of a node with an unknown configuration does not start: no GPU appears there.",
        fix="Point devicePlugin.config at the ConfigMap that has the key, or put the node's label right.",
        check=operator_configs.plugin_configs,
    ),
    Rule(
        name="mig-configs-exist",
        title="Nodes are labelled with MIG layouts that exist",
        why="The MIG manager reports `failed` and leaves the GPUs as they are.",
        fix="Point migManager.config at the ConfigMap that has the layout, or put the node's label right.",
        check=operator_configs.mig_configs,
    ),
    Rule(
        name="operator-tolerates-pools",
        title="The GPU Operator's daemonsets tolerate every pool's taints",
        why="Without driver, toolkit and device plugin on a node its GPUs don't exist to Kubernetes.",
        fix="Add the toleration to daemonsets.tolerations and node-feature-discovery.worker.tolerations.",
        check=taints.operands,
    ),
    Rule(
        name="pods-reach-pools",
        title="Pods that name a pool find it and tolerate its taints",
        why="Such a pod stays pending for ever, and no autoscaler starts a node for it.",
        fix="Put the pool's name right, or add the toleration that `gpupool plan` shows for the pool.",
        check=taints.pods,
        supposes_whole=True,
    ),
    Rule(
        name="priorities-differ",
        title="No two PriorityClasses have one value",
        why="The scheduler treats them alike, whatever their names promise.",
        fix="Give each a value of its own.",
        check=priority_classes.values,
    ),
    Rule(
        name="one-default-priority",
        title="At most one PriorityClass is the default",
        why="The API server refuses a second one, or takes the one with the least value.",
        fix="Set globalDefault to false on all but one.",
        check=priority_classes.default,
    ),
    Rule(
        name="priorities-as-planned",
        title="PriorityClasses say what the environment's priorities say",
        why="The queue orders jobs by the environment's values, the scheduler pods by the classes'.",
        fix="Change `priorities` in the environment file and render again.",
        check=priority_classes.planned,
    ),
    Rule(
        name="tenant-priorities-bounded",
        title="A quota closes to each tenant the priorities above its highest",
        why="Users of any priority can preempt the pods of all others.",
        fix="List the priority in `priorities`, so that the quotas of lesser tenants name it.",
        check=priority_classes.bounded,
    ),
    Rule(
        name="tenants-have-quotas",
        title="Each tenant's namespace has a quota that names every GPU resource",
        why="What no quota names, a namespace may take all of.",
        fix="Render the environment again; do not remove its quotas.",
        check=quotas.present,
    ),
    Rule(
        name="quotas-as-granted",
        title="Quotas are what the environment grants",
        why="The queue, reports and budgets use the grant; the cluster enforces the quota.",
        fix="Change the tenant's `pools` in the environment file and render again.",
        check=quotas.as_granted,
    ),
    Rule(
        name="quotas-within-capacity",
        title="No quota allows more than all pools have",
        why="Pods beyond the pools' maximum are accepted and stay pending for ever.",
        fix="Lower the quota, or raise nodes.max of the pool.",
        check=quotas.within_capacity,
    ),
    Rule(
        name="pools-not-oversubscribed",
        title=f"No pool is promised more than {quotas.OVERSUBSCRIBED} times over",
        why="Tenants plan with their quota; one that is almost never available does not help them.",
        fix="Lower the grants, or raise nodes.max of the pool.",
        level="warn",
        check=quotas.oversubscribed,
    ),
    Rule(
        name="pool-counts-agree",
        title="Device plugin, MIG layout, NodeOverlay, NodePool and plan count the same slices",
        why="Where Karpenter counts other than the device plugin it starts too many nodes or none.",
        fix="Change the pool in the environment file and render again; do not edit one of them alone.",
        check=counts.agree,
    ),
    Rule(
        name="pools-as-planned",
        title="Every pool has its nodes, with the plan's numbers, labels and taints",
        why="Quotas, queue and cost use the plan.",
        fix="Change the pool in the environment file and render again.",
        check=planned_pools.present,
    ),
    Rule(
        name="cost-within-ceiling",
        title="All pools at their maximum cost no more than cost.monthlyUsdMax",
        why="Nothing but the pools' maximum keeps the cloud's bill bounded.",
        fix="Lower nodes.max, choose other machines or more spot, or raise the ceiling.",
        check=cost.ceiling,
    ),
    Rule(
        name="budgets-within-ceiling",
        title="Tenants' budgets together are no more than cost.monthlyUsdMax",
        why="Budgets that add up to more than may be spent stop no one in time.",
        fix="Lower budgets, or raise the ceiling.",
        check=cost.budgets,
    ),
)

ENVIRONMENT_RULES: tuple[Rule[Sequence[Bundle]], ...] = (
    Rule(
        name="one-environment-per-object",
        title="No object is owned by two environments",
        why="Each undoes what the other applies, and destroying one takes the other's objects away.",
        fix="Put both into one environment file, or give each a cluster of its own.",
        check=environments.objects,
    ),
    Rule(
        name="one-environment-per-node",
        title="No machine is in static pools of two environments",
        why="A node has one sharing mode; the last environment that is applied decides it.",
        fix="Leave the machine in one of the two. Two machines of two clusters may share a name, though.",
        level="warn",
        check=environments.nodes,
    ),
)


def check_bundle(bundle: Bundle) -> list[PolicyFinding]:
    """What is wrong with one bundle, rule by rule."""
    whole = bundle.plan is not None
    return [finding for rule in RULES for finding in rule.findings(bundle, whole)]


def check_bundles(bundles: Iterable[Bundle]) -> list[PolicyFinding]:
    """What is wrong between several environments. What is wrong with each alone is not repeated."""
    together = tuple(bundles)
    return [finding for rule in ENVIRONMENT_RULES for finding in rule.findings(together, True)]


__all__ = [
    "ENVIRONMENT_RULES",
    "EXTERNAL",
    "RULES",
    "Bundle",
    "BundleObject",
    "Found",
    "Release",
    "Rule",
    "check_bundle",
    "check_bundles",
    "release_of",
]
