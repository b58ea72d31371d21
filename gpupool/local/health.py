"""The health of a running control plane: its store, its API server, and the rights of our credential.

Each answer is a problem in words, with the file to look at and what to do, or nothing. Changes nothing, and
does not know which processes there are (see `instance`).
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from gpupool.findings import GpupoolError
from gpupool.live.cluster.kube_api import ApiError, KubeApi
from gpupool.live.cluster.kubeconfig import KubeconfigError
from gpupool.live.cluster.local_layout import Layout
from gpupool.local.components import ETCD_SOCKET, Ports
from gpupool.programs.failures import LocalError

PROBE_SECONDS = 5.0
"""How long a part may take to report that it is healthy; twice that and `up` takes the API server for hanging
and restarts everything, so a busy machine must not look like that."""
_NO_SPACE = "NOSPACE"
"""etcd's name for the alarm that it raises when its file reaches the quota."""
_SOCKET_BYTES = 100
"""Longer paths are no addresses of a socket (sun_path: 108 bytes on Linux, 104 on macOS)."""
_ANYTHING = {"resourceAttributes": {"group": "*", "resource": "*", "verb": "*"}}
_REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_MYSELF = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


def problems(layout: Layout, ports: Ports) -> list[str]:
    """Everything that is wrong with parts that run, each with where to look."""
    texts = [text for text in (store(layout) or api_server(layout) or credential(layout),) if text]
    if not answers(f"http://127.0.0.1:{ports.karpenter_health}/healthz"):
        texts.append(f"karpenter is not healthy; its log: {layout.log('karpenter')}")
    return texts


def store(layout: Layout) -> str | None:
    """What is wrong with etcd, by its own health check on its own socket (etcd 3.6, GET /health).

    The API server does not notice a store without space, because it can still read, and a silent one only
    after 4 s.
    """
    reason = _alarm(layout)
    if reason is None:
        return f"etcd does not answer; its log: {layout.log('etcd')}"
    if _NO_SPACE in reason:
        return (
            f"etcd is out of space: {layout.data / 'etcd'} has reached etcd's quota (2 GiB by default), so "
            "every change is refused; start with an empty cluster: gpupool local down, then gpupool local up"
        )
    return f"etcd is not healthy ({reason}); its log: {layout.log('etcd')}" if reason else None


def out_of_space(layout: Layout) -> bool:
    """Whether etcd answers and is out of space: restarting does not help then."""
    return _NO_SPACE in (_alarm(layout) or "")


def require_space(layout: Layout) -> None:
    """Raise LocalError when etcd is out of space."""
    if out_of_space(layout):
        raise LocalError(str(store(layout)))


def _alarm(layout: Layout) -> str | None:
    """Why etcd calls itself unhealthy, empty where it is well; None where it does not answer."""
    try:
        with _store_connection(layout) as connection:
            connection.request("GET", "/health")
            return str(json.loads(connection.getresponse().read()).get("reason", ""))
    except (OSError, http.client.HTTPException, ValueError):
        return None


@contextlib.contextmanager
def _store_connection(layout: Layout) -> Iterator[http.client.HTTPConnection]:
    """A connection to etcd's socket. Raises OSError."""
    folder = os.open(layout.data, os.O_RDONLY | os.O_DIRECTORY)
    connection = http.client.HTTPConnection("etcd", timeout=PROBE_SECONDS)
    try:
        path = str(layout.data / ETCD_SOCKET)
        if len(os.fsencode(path)) > _SOCKET_BYTES and Path("/proc/self/fd").exists():
            path = f"/proc/self/fd/{folder}/{ETCD_SOCKET}"
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(PROBE_SECONDS)
        connection.sock.connect(path)
        yield connection
    finally:
        connection.close()
        os.close(folder)


def api_server(layout: Layout) -> str | None:
    """What is wrong with the API server; one that refuses our credential is well."""
    log = layout.log("kube-apiserver")
    try:
        with contextlib.closing(KubeApi.connect(layout.kubeconfig, seconds=PROBE_SECONDS)) as api:
            api.request("GET", "/readyz")
    except KubeconfigError as error:
        return str(error)
    except ApiError as error:
        failed = [line[3:].split()[0] for line in str(error).splitlines() if line.startswith("[-]")]
        if error.status not in (401, 403):
            return f"kube-apiserver is not ready ({', '.join(failed) or error}); its log: {log}"
    except GpupoolError:
        return f"kube-apiserver does not answer; its log: {log}"
    return None


def serves(layout: Layout) -> bool:
    """Whether the API server is ready. Raises LocalError where it never will be: etcd is out of space."""
    require_space(layout)
    return api_server(layout) is None


def credential(layout: Layout) -> str | None:
    """Why the administrator's kubeconfig can't be used, as the API server sees it; None where it can."""
    try:
        with contextlib.closing(KubeApi.connect(layout.kubeconfig, seconds=PROBE_SECONDS)) as api:
            kind = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
            answer = api.request("POST", _REVIEW, None, {**kind, "spec": _ANYTHING})[1]
            if answer["status"].get("allowed"):
                return None
            kind = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
            user = api.request("POST", _MYSELF, None, kind)[1]["status"]["userInfo"]["username"]
    except ApiError as error:
        return f"{layout.kubeconfig}: the API server does not accept its token ({error})"
    except GpupoolError as error:
        return str(error)
    return f"{layout.kubeconfig}: its user {user} is not cluster-admin"


def answers(url: str) -> bool:
    """Whether a part answers 200 at its own health check."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=PROBE_SECONDS) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
