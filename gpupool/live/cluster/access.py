"""The cluster that an environment names: a client for it, and whether it answers.

Nothing here loads Pulumi: `gpupool assert` and reports ask the same cluster without it.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Protocol

from gpupool.environment.spec.environment import Cluster
from gpupool.live.cluster.kube_api import ApiError, KubeApi, UnreachableError
from gpupool.live.cluster.kubeconfig import KubeconfigError
from gpupool.live.cluster.local_layout import Layout, default_folder

_SIGN_SECONDS = 10.0
"""How long a cluster may take to answer."""


class Target(Protocol):
    """What names a cluster: a Plan, or as much of one as a file with faults says."""

    @property
    def environment(self) -> str: ...

    @property
    def cluster(self) -> Cluster: ...


def kubeconfig(target: Target) -> Path | None:
    """The kubeconfig of the local control plane; None where the user's own is to be read."""
    return Layout(default_folder()).kubeconfig if target.cluster.platform == "local" else None


def connect(target: Target) -> KubeApi:
    """A client for the target's cluster. Raises KubeconfigError."""
    return KubeApi.connect(kubeconfig(target), target.cluster.kube_context)


def require_cluster(target: Target) -> None:
    """Check that the target's cluster responds, so that a run fails once and not object by object.

    Raises GpupoolError: KubeconfigError, UnreachableError, or ApiError for credentials that are refused.
    """
    file = kubeconfig(target)
    if file is not None and not os.path.isfile(file):
        raise KubeconfigError(
            f"{target.environment} is for the local control plane, but there is none in {file.parent}; "
            "start it with: gpupool local up"
        )
    try:
        with contextlib.closing(KubeApi.connect(file, target.cluster.kube_context, _SIGN_SECONDS)) as api:
            api.request("GET", "/version")
            dead = _without_store(api)
    except UnreachableError as error:
        if file is None:
            raise
        raise UnreachableError(
            f"the local control plane at {file.parent} does not answer; `gpupool local status` shows its "
            "state, `gpupool local up` repairs it"
        ) from error
    except ApiError as error:
        raise ApiError(
            error.status,
            error.reason,
            f"{file or 'KUBECONFIG'}: the cluster rejects the credentials: {error}",
        ) from error
    if dead:
        repair = "check that it runs" if file is None else "`gpupool local up` repairs it"
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
