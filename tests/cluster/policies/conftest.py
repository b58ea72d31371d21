"""Which API server the engine is compared with, and an environment with its own state, as the tests of the
stack have it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.live.cluster import kubeconfig
from gpupool.live.cluster.kube_api import KubeApi
from gpupool.local import crds
from tests.cluster.pulumi.conftest import world

__all__ = ["world"]
ANOTHER_CLUSTER = "GPUPOOL_DIFFERENTIAL_KUBECONFIG"


@pytest.fixture(scope="session")
def compared(request: pytest.FixtureRequest) -> Iterator[Path]:
    """The kubeconfig of the API server that the engine must agree with.

    The shared control plane's, which is started for it; or that of another cluster, so that the same suite
    says how the engine agrees with another version of Kubernetes. Tests that need more than an API server
    (files of the control plane, its processes) take `control_plane` itself. Custom kinds that the shipped
    policies are about and the other cluster lacks are served there meanwhile.
    """
    given = os.environ.get(ANOTHER_CLUSTER)
    if not given:
        yield request.getfixturevalue("control_plane").kubeconfig
        return
    found = Path(given)
    if not found.is_file():
        pytest.fail(f"{ANOTHER_CLUSTER}={given}: no such file; name a kubeconfig, or unset it")
    api = KubeApi(kubeconfig.load(found, None))
    kind = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    missing = [body for body in crds.definitions() if api.get(*kind, body["metadata"]["name"]) is None]
    crds.serve(api, missing)
    yield found
    for body in missing:
        api.delete(*kind, body["metadata"]["name"])
    api.close()
