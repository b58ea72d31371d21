"""What a stack consists of: the provider, the manifests as resources, and the outputs.

Thin on purpose: what is made comes from `generators`, how it is made from `apply`. Shared by
`gpupool up` (which has read the plan already) and the plain Pulumi CLI.
"""

from __future__ import annotations

import contextlib
import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pulumi

from generators import generate
from generators.manifest import Bundle
from gpupool.cluster.kube_api import ApiError, KubeApi, UnreachableError
from gpupool.cluster.kubeconfig import KubeconfigError
from gpupool.cluster.local_layout import Layout, default_folder
from gpupool.plan.model import Plan
from gpupool.plan.resolve import read_plan
from infra import apply, delivered, foreign_operator, static_nodes

_SIGN_SECONDS = 10.0
"""How long a cluster may take to answer."""


def run(environment: str) -> None:
    """Register everything of an environment. Raises GpupoolError for problems that the user can fix."""
    plan = read_plan(environment)
    if not pulumi.runtime.is_dry_run():
        delivered.require_ours(plan)
    register(plan, generate(plan))


def register(plan: Plan, bundle: Bundle) -> list[pulumi.Resource]:
    """Register `bundle` as the resources of this stack, and the plan's figures as its outputs."""
    hooks = static_nodes.hooks(lambda: connect(plan))
    manifests = tuple(bundle)
    for manifest in manifests:
        if manifest.patch and manifest.kind == "ClusterPolicy":
            foreign_operator.check(manifest, connect(plan))
    if plan.cluster.platform == "static":
        manifests = static_nodes.resolve(plan, manifests, connect(plan))
    made = apply.register(manifests, bundle.releases, provider(plan), hooks)
    for name, value in outputs(plan).items():
        pulumi.export(name, value)
    return made


def kubeconfig(plan: Plan) -> Path | None:
    """The kubeconfig of the local control plane; None where the user's own is to be read."""
    return Layout(default_folder()).kubeconfig if plan.cluster.platform == "local" else None


def connect(plan: Plan) -> KubeApi:
    """A client for the plan's cluster. Raises KubeconfigError."""
    return KubeApi.connect(kubeconfig(plan), plan.cluster.kube_context)


def require_cluster(plan: Plan) -> None:
    """Check that the plan's cluster responds, so that a run fails once and not object by object.

    Raises GpupoolError: KubeconfigError, UnreachableError, or ApiError for credentials that are refused.
    """
    file = kubeconfig(plan)
    if file is not None and not os.path.isfile(file):
        raise KubeconfigError(
            f"{plan.environment} is for the local control plane, and none is at {file.parent}; "
            "start it with: gpupool local up"
        )
    try:
        with contextlib.closing(KubeApi.connect(file, plan.cluster.kube_context, _SIGN_SECONDS)) as api:
            api.request("GET", "/version")
            dead = _without_store(api)
    except UnreachableError as error:
        if file is None:
            raise
        raise UnreachableError(
            f"the local control plane at {file.parent} does not answer; "
            "`gpupool local status` shows what runs, `gpupool local up` repairs it"
        ) from error
    except ApiError as error:
        raise ApiError(
            error.status, error.reason, f"{file or 'KUBECONFIG'}: the cluster refuses us: {error}"
        ) from error
    if dead:
        repair = "see that it runs" if file is None else "`gpupool local up` repairs it"
        raise UnreachableError(
            f"the API server at {api.server} (context {api.context}) answers, but its etcd does not, so "
            f"nothing can be read or changed; nothing was changed: {repair}"
        )


def _without_store(api: KubeApi) -> bool:
    """Whether the API server has lost its etcd, by its own check, which takes two seconds to say so.

    Every authenticated user may ask (ClusterRole system:public-info-viewer); where that was changed, the
    answer is False. The check of etcd-readiness would take two seconds more and say the same.
    """
    try:
        api.request("GET", "/readyz", {"exclude": "etcd-readiness"})
    except ApiError as error:
        return "[-]etcd " in str(error)
    return False


def provider(plan: Plan) -> pulumi.ProviderResource:
    """The one Kubernetes provider. It gets a path and a context, so no credential reaches the state."""
    file = kubeconfig(plan)
    options: dict[str, Any] = {
        "kubeconfig": str(file) if file else None,
        "context": plan.cluster.kube_context,
        "enableServerSideApply": "true",
        # What the environment file says wins over an edit by hand, so `up` repairs drift. Objects that
        # are not ours stay safe: creating over an existing one fails, and static_nodes checks labels.
        "enablePatchForce": "true",
        "suppressDeprecationWarnings": "true",
        # Policies judge by ConfigMaps of fixed names: replacing one would leave them nothing to judge by
        # for a moment. Those that must be replaced have their content in their name.
        "enableConfigMapMutable": "true",
    }
    given = {name: value for name, value in options.items() if value is not None}
    plugin = pulumi.ResourceOptions(version=version("pulumi-kubernetes"))
    return pulumi.ProviderResource("kubernetes", "cluster", given, plugin)


def outputs(plan: Plan) -> dict[str, Any]:
    """Stack outputs: what other stacks and people ask for most."""
    whole = plan.as_dict()
    keys = ("name", "gpu", "mode", "nodesMax", "slicesPerNode", "monthlyUsd")
    return {
        "environment": plan.environment,
        "pools": [{key: pool[key] for key in keys} for pool in whole["pools"]],
        "slots": whole["queue"]["slots"],
        "monthlyUsd": whole["monthlyUsd"],
    }
