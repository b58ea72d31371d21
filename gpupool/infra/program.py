"""What a stack consists of: the provider, the manifests as resources, and the outputs.

Thin on purpose: what is made comes from `generators`, how it is made from `apply`. The plain Pulumi CLI calls
`run`. `gpupool up` has read the file and heard policy before it starts the engine, so it calls `register`.
"""

from __future__ import annotations

from typing import Any

import pulumi

from gpupool.environment.plan.model import Plan
from gpupool.environment.plan.plan_json import plan_json
from gpupool.environment.plan.resolve import read_plan
from gpupool.generators import generate
from gpupool.generators.manifest import Bundle
from gpupool.infra import apply, gitops_refusal
from gpupool.infra.pulumi_plugins import env as pulumi_env
from gpupool.live.cluster.access import connect, kubeconfig
from gpupool.live.objects import foreign_operator, orphans, static_nodes
from gpupool.policy import gate as policy_gate


def run(environment: str) -> None:
    """Register everything of an environment, once policy has passed it; warnings are logged.

    Raises GpupoolError for problems that the user can fix, as PolicyRefusalError.
    """
    plan = read_plan(environment)
    bundle = generate(plan)
    for finding in policy_gate.passed(environment, plan, bundle):
        pulumi.log.warn(policy_gate.describe(finding))
    if not pulumi.runtime.is_dry_run():
        gitops_refusal.require_ours(plan)
        api = connect(plan)
        ours = orphans.find(api, plan.environment).keys
        others = [manifest for manifest in bundle if orphans.key_of(manifest.body) not in ours]
        orphans.require_none_foreign(api, plan.environment, others)
    register(plan, bundle)


def register(plan: Plan, bundle: Bundle) -> list[pulumi.Resource]:
    """Register `bundle` as the resources of this stack, and the plan's figures as its outputs."""
    manifests = tuple(bundle)
    for manifest in manifests:
        if manifest.patch and manifest.kind == "ClusterPolicy":
            foreign_operator.check(manifest, connect(plan), plan.gpu_operator.namespace)
    if plan.has_existing_nodes:
        manifests = static_nodes.resolve(plan, manifests, connect(plan))
    made = apply.register(manifests, bundle.releases, provider(plan), hooks(plan))
    for name, value in outputs(plan).items():
        pulumi.export(name, value)
    return made


def hooks(plan: Plan) -> dict[str, pulumi.ResourceHookBinding]:
    """The hook that gives a node its own taints back before its patch goes, by kind of patched object."""

    def give_back(args: pulumi.ResourceHookArgs) -> None:
        metadata = (args.old_inputs or {}).get("metadata") or {}
        static_nodes.restore(connect(plan), str(metadata["name"]))

    hook = pulumi.ResourceHook(static_nodes.HOOK, give_back)
    return {"Node": pulumi.ResourceHookBinding(before_delete=[hook])}


def provider(plan: Plan) -> pulumi.ProviderResource:
    """The one Kubernetes provider. It gets a path and a context, so no credential reaches the state."""
    file = kubeconfig(plan)
    options: dict[str, Any] = {
        "kubeconfig": str(file) if file else None,
        "context": plan.cluster.kube_context,
        "enableServerSideApply": "true",
        # What the environment file says wins over an edit by hand, so `up` repairs drift. Whose an object is
        # was decided before (`orphans.require_none_foreign`, `static_nodes`).
        "enablePatchForce": "true",
        # A run that was killed has made objects that the state does not know, and the next one makes them
        # again. Providers before 4.29.0 lack the option and do so always.
        "upsertExistingObjects": "true",
        "suppressDeprecationWarnings": "true",
        # Policies judge by ConfigMaps of fixed names: replacing one would leave them nothing to judge by
        # for a moment. Those that must be replaced have their content in their name.
        "enableConfigMapMutable": "true",
    }
    given = {name: value for name, value in options.items() if value is not None}
    plugin = pulumi.ResourceOptions(version=pulumi_env.pinned_plugin())
    return pulumi.ProviderResource("kubernetes", "cluster", given, plugin)


def outputs(plan: Plan) -> dict[str, Any]:
    """Stack outputs: what other stacks and people ask for most."""
    whole = plan_json(plan)
    keys = ("name", "gpu", "mode", "nodesMax", "slicesPerNode", "monthlyUsd")
    return {
        "environment": plan.environment,
        "pools": [{key: pool[key] for key in keys} for pool in whole["pools"]],
        "slots": whole["queue"]["slots"],
        "monthlyUsd": whole["monthlyUsd"],
    }
