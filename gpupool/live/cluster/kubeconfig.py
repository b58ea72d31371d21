"""Which cluster, and as whom: a kubeconfig, read by the Kubernetes client library. Nothing is ever written.

Tokens, certificates, exec plugins (aws eks get-token and the like) and KUBECONFIG with several files are
handled by the library; here its errors get a file's name and advice. Credentials stay in the client.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpupool.findings import GpupoolError

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

_CONNECTIONS = 32
IN_CLUSTER = "in-cluster"
"""What the context is called that no kubeconfig describes: the pod's own service account."""
_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod finds its token and the server's certificate (Kubernetes documentation, accessing the API from
within a pod)."""
_ADVICE = "set KUBECONFIG to the kubeconfig of the right cluster"


class KubeconfigError(GpupoolError):
    """A kubeconfig that can't be used; the text names the file, what is wrong and what to do."""


@dataclass(frozen=True)
class ClusterAccess:
    """How to reach one cluster as one user."""

    context: str
    server: str
    """https://host:port, without a slash at the end."""
    client: ApiClient = field(repr=False)
    """Holds the credentials: never log or store it."""


def load(path: Path | None = None, context: str | None = None) -> ClusterAccess:
    """The access that `context` (default: the current one) of the kubeconfig at `path` describes.

    Without a path the files of KUBECONFIG, or ~/.kube/config; in a pod without either, its service account,
    whatever the context is called outside. Raises KubeconfigError for a missing or
    unusable file, an unknown context, or a failing exec plugin.
    """
    # Imported here: the library takes most of a second, and verbs without a cluster must not pay for it.
    import yaml
    from kubernetes import client, config

    where = str(path) if path else os.environ.get("KUBECONFIG") or "~/.kube/config"
    if path is None and not os.environ.get("KUBECONFIG") and _in_pod():
        return _of_pod()
    if path is not None and not path.is_file():
        raise KubeconfigError(f"{path}: no such file; {_ADVICE}")
    configuration = client.Configuration()
    configuration.retries = False
    configuration.connection_pool_maxsize = _CONNECTIONS
    try:
        contexts, current = config.list_kube_config_contexts(where)  # type: ignore[no-untyped-call]
        name = context or current["name"]
        if all(row["name"] != name for row in contexts):
            known = ", ".join(sorted(str(row["name"]) for row in contexts))
            raise KubeconfigError(f'{where}: no context "{name}"; contexts: {known}')
        config.load_kube_config(where, name, configuration, False)  # type: ignore[no-untyped-call]
    except config.ConfigException as error:
        raise KubeconfigError(f"{where}: {_plain(error)}; {_ADVICE}") from error
    except (yaml.YAMLError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise KubeconfigError(f"{where}: not a valid kubeconfig ({_plain(error)}); {_ADVICE}") from error
    server = str(configuration.host).rstrip("/")
    if server.startswith(("https://127.0.0.1", "https://localhost", "https://[::1]")):
        configuration.proxy = None  # a proxy of the environment has no way back to this machine
    if not server.startswith(("http://", "https://")):
        raise KubeconfigError(f'{where}: the cluster of context "{name}" has no server address (https://...)')
    return ClusterAccess(name, server, client.ApiClient(configuration))


def _in_pod() -> bool:
    """Whether there is a service account's token and no kubeconfig."""
    return (
        "KUBERNETES_SERVICE_HOST" in os.environ
        and (_ACCOUNT / "token").is_file()
        and not Path("~/.kube/config").expanduser().is_file()
    )


def _of_pod() -> ClusterAccess:
    """The service account of this pod. The library reads its token again before it ends."""
    from kubernetes import client, config
    from kubernetes.config.incluster_config import InClusterConfigLoader

    configuration = client.Configuration()
    configuration.retries = False
    configuration.connection_pool_maxsize = _CONNECTIONS
    try:
        loader = InClusterConfigLoader(  # type: ignore[no-untyped-call]
            str(_ACCOUNT / "token"), str(_ACCOUNT / "ca.crt")
        )
        loader.load_and_set(configuration)  # type: ignore[no-untyped-call]
    except (config.ConfigException, OSError) as error:
        raise KubeconfigError(
            f"{_ACCOUNT}: {_plain(error)}; the pod needs its service account's token"
        ) from error
    configuration.proxy = None  # the server is a service of this cluster
    return ClusterAccess(IN_CLUSTER, str(configuration.host).rstrip("/"), client.ApiClient(configuration))


def _plain(error: Any) -> str:
    return " ".join(str(error).split()).removeprefix("Invalid kube-config file. ").rstrip(".")
