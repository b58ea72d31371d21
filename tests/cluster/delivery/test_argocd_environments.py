"""Argo CD itself where environments differ: who else applies, charts, clouds, kinds that come later."""

from __future__ import annotations

import functools
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from gpupool.local.ports import free_port
from tests.cluster.delivery.argocd_delivery import OWN, Delivered, started
from tests.cluster.delivery.conftest import ENVIRONMENT, Trial
from tests.cluster.operator_policy import hand_made_policy
from tests.environment_files import environment_data
from tests.required_programs import require

Object = dict[str, Any]
CHART = Path(__file__).parents[3] / "charts" / "gpu-scheduler"
PROMETHEUS_KINDS = Path(__file__).parents[1] / "prometheus_operator.yaml"
_CLEAN = "the cluster matches the file"


def test_up_beside_argo_cd_is_said_and_undone_by_nobody(
    trial: Trial, gitops_kinds: Any, tmp_path: Path
) -> None:
    """With `delete`, what the file loses goes; a sync that somebody has switched off is named."""
    trial.deliver_by("pulumi")
    trial.gpupool("up", "--yes")
    environment = {**deepcopy(ENVIRONMENT), "delivery": {"onRemoval": "delete"}}
    with started(environment, trial, gitops_kinds, tmp_path) as delivery:
        delivery.until_delivered(delivery.repository.head())
        trial.gpupool("up", "--yes", "--despite-gitops")
        assert "gpupool up (gpupool) also sets fields" in trial.gpupool("assert")
        trial.gpupool("handover", "--to", "argocd")
        assert "sets fields" not in trial.gpupool("assert")
        patch = {"spec": {"syncPolicy": {"automated": {"enabled": False}}}}
        name = f"{OWN}-delivery"
        gitops_kinds.api.patch("argoproj.io/v1alpha1", "Application", name, patch, "argocd")
        printed = trial.gpupool("assert")
        assert "delivery-suspended" in printed
        (command,) = (c for c in trial.commands(printed) if name in c)
        trial.carry_out(command)
        assert "delivery-suspended" not in trial.gpupool("assert")
        del delivery.environment["pools"][1]
        delivery.until_delivered(delivery.push("a pool less"))
        assert gitops_kinds.api.get("karpenter.sh/v1", "NodePool", "models") is None
        assert _CLEAN in trial.gpupool("assert")


@contextmanager
def _charts(folder: Path) -> Iterator[tuple[str, Path]]:
    """A chart repository with gpupool's own chart: its address, and the certificate to trust."""
    folder.mkdir()
    helm = str(require("helm")["helm"])
    subprocess.run([helm, "package", str(CHART), "-d", str(folder)], check=True, capture_output=True)
    subprocess.run([helm, "repo", "index", str(folder)], check=True, capture_output=True)
    certificate, key = folder / "cert.pem", folder / "key.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    request = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
    ]
    files = ["-keyout", str(key), "-out", str(certificate), "-days", "2"]
    subprocess.run([*request, *subject, *files], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    handler = functools.partial(_Quiet, directory=str(folder))
    server = ThreadingHTTPServer(("127.0.0.1", free_port()), handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"https://localhost:{server.server_address[1]}", certificate
    finally:
        server.shutdown()
        server.server_close()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Silent."""


def test_a_chart_and_nodes_of_somebody_elses(trial: Trial, gitops_kinds: Any, tmp_path: Path) -> None:
    for number in range(2):
        gitops_kinds.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"lab-{number}"}})
    gitops_kinds.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gpu-operator"}})
    gitops_kinds.apply(hand_made_policy())
    with _charts(tmp_path / "charts") as (address, certificate):
        queue = {
            "chart": {"repository": address, "image": "registry.example.com/gpupool:0.2.0"},
            "database": {"secretRef": {"name": "database", "key": "url"}},
        }
        environment = environment_data(
            "static",
            gpuOperator={"install": False},
            pools=[{"name": "desk", "gpu": "rtx-4090", "nodes": {"names": ["lab-0"]}, "taints": []}],
            queue=queue,
        )
        with started(environment, trial, gitops_kinds, tmp_path, SSL_CERT_FILE=str(certificate)) as delivery:
            delivery.charts = frozenset({f"{OWN}-gpu-scheduler"})
            delivery.until_delivered(delivery.repository.head())
            node = gitops_kinds.get("v1", "Node", "lab-0")
            assert node["metadata"]["labels"]["gpupool.dev/pool"] == "desk"
            deployments = gitops_kinds.api.list("apps/v1", "Deployment", "gpupool-system")
            names = {body["metadata"]["name"] for body in deployments}
            assert names == {"gpu-scheduler", "gpu-scheduler-dispatcher", "gpu-scheduler-executor"}
            delivery.environment["pools"][0]["nodes"]["names"] = ["lab-1"]
            delivery.until_delivered(delivery.push("another node"), pruned=False)
            assert "Node lab-0" in trial.gpupool("assert", code=1), "it still has the pool's label"


def test_a_cloud_and_kinds_that_come_later(trial: Trial, gitops_kinds: Any, tmp_path: Path) -> None:
    environment = environment_data(
        "eks",
        gpuOperator={"install": False},
        karpenter={"install": False, "nodeRole": "nodes"},
        monitoring={"prometheusOperator": True},
        pools=deepcopy(ENVIRONMENT["pools"]),
    )
    del environment["pools"][0]["nodes"]["warm"]
    gitops_kinds.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gpu-operator"}})
    gitops_kinds.apply(hand_made_policy())
    with started(environment, trial, gitops_kinds, tmp_path) as delivery:

        def waits() -> bool:
            state = delivery.state()
            known = {name: state.get(name) for name in ("phase", "message", "retryCount")}
            assert state.get("retryCount"), known
            # The kind, or the resource where Argo CD still knows the kind from a test before this one.
            assert "prometheusrule" in state["message"].lower(), known
            return True

        gitops_kinds.wait("it waits for the kinds of Prometheus' operator", waits, timeout=420)
        printed = trial.gpupool("assert", code=1)
        assert "delivery-retrying" in printed
        assert "kind-unknown" in printed
        with gitops_kinds.kinds(PROMETHEUS_KINDS):
            for version, kind in (("karpenter.k8s.aws/v1", "EC2NodeClass"), ("karpenter.sh/v1", "NodePool")):
                _accept(gitops_kinds, delivery, version, kind)
            delivery.until_delivered(delivery.repository.head())
            assert "others:" not in trial.gpupool("assert")


def _accept(cluster: Any, delivery: Delivered, version: str, kind: str) -> None:
    """Say of all pools' objects what Karpenter for AWS would."""
    names = {pool["name"] for pool in delivery.environment["pools"]}

    def there() -> bool:
        delivery.applications()
        return names <= {body["metadata"]["name"] for body in cluster.api.list(version, kind)}

    cluster.wait(f"there is a {kind} of each pool", there, timeout=240)
    ready = {"type": "Ready", "status": "True", "reason": "Ready", "message": ""}
    ready["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    for name in names:
        cluster.api.patch(version, kind, name, {"status": {"conditions": [ready]}}, subresource="status")
