"""The environment of these tests applied to the shared control plane, and those who act for its tenants.

They are service accounts with tokens from the API server, as `access` of the environment file grants them; a
member of a group of the identity provider is impersonated, since there is no such provider here. Others have
Kubernetes' role `edit`, in a tenant's namespace and in one that is no tenant's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gpupool.local.control_plane import ControlPlane
from tests.cluster.containment.requests import Request
from tests.cluster.kube import Kube
from tests.cluster.policies.server import Server
from tests.cluster.pools.command_line import CommandLine

_ENVIRONMENT = Path(__file__).with_name("environment.yaml")
_ACCOUNTS = {
    "vision": ("team-vision", "default"),
    "serving": ("team-serving", "default"),
    "editor": ("team-vision", "editor"),
    "elsewhere": ("elsewhere", "editor"),
}
"""Who acts -> namespace and service account. The first two have what `access` of the file gives them."""
_EDIT = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"}
"""The role of Kubernetes that the others have in their namespaces, one of which is no tenant's."""
_AT_ONCE = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
_MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
"""The quota, by its controller, while the API server counted: what is sent has no version of its own."""
_TRIES = 5


@dataclass(frozen=True)
class Actor:
    """Somebody who acts for a tenant."""

    server: Server
    namespace: str
    user: str | None = None
    group: str | None = None

    def refusal(self, request: Request) -> str:
        """What the server says against the request; empty where it takes it. What it makes goes again."""
        made: list[str] = []
        try:
            for one in (*request.before, request):
                refused = self._send(one.method, one.path, one.body, one.content_type)
                if refused:
                    assert one is request, f"not even the object before the attack is taken: {refused}"
                    return refused
                if one.makes:
                    made.append(one.makes)
        finally:
            for path in reversed(made):
                self._send("DELETE", path, _AT_ONCE)
        return ""

    def _send(
        self, method: str, path: str, body: dict[str, Any] | None, content_type: str = "application/json"
    ) -> str:
        for _ in range(_TRIES):
            answer = self.server.send(
                method, path, body, content_type, user=self.user, group=self.group, dry_run=False
            )
            if _MODIFIED not in answer.message:
                break
        return answer.message or ("refused without a word" if answer.status >= 400 else "")


@pytest.fixture(scope="module")
def applied(
    kube: Kube, control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CommandLine]:
    """The environment, applied with the real command line, and destroyed when the module is done."""
    kube.wipe()
    # The GPU Operator's: without it the server refuses pods that name it before policies are asked.
    runtime = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "nvidia"}}
    kube.api.create({**runtime, "handler": "nvidia"})
    file = tmp_path_factory.mktemp("containment") / "containment.yaml"
    file.write_text(_ENVIRONMENT.read_text(encoding="utf-8"), encoding="utf-8")
    commands = CommandLine(file, control_plane)
    commands.up()
    kube.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "elsewhere"}})
    for namespace, account in (_ACCOUNTS["editor"], _ACCOUNTS["elsewhere"]):
        _let_edit(kube, namespace, account)
    yield commands
    kube.api.delete("v1", "Namespace", "elsewhere")
    commands.run("destroy", "--yes")
    kube.api.delete("node.k8s.io/v1", "RuntimeClass", "nvidia")
    kube.wipe()  # waits until the server has given up the policies


@pytest.fixture(scope="module")
def actors(
    applied: CommandLine, kube: Kube, control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Actor]]:
    """Everybody who acts for a tenant, by name."""
    folder = tmp_path_factory.mktemp("accounts")
    found = {}
    for name, (namespace, account) in _ACCOUNTS.items():
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}"
        for needed in ("default", account):  # pods run as the first
            kube.wait(
                f"{namespace} has its account",
                lambda namespace=namespace, needed=needed: kube.api.get(
                    "v1", "ServiceAccount", needed, namespace
                ),
            )
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        token = kube.api.request("POST", f"{path}/token", None, body)[1]["status"]["token"]
        found[name] = Actor(Server(_kubeconfig(control_plane, folder / name, token)), namespace)
    administrator = Server(control_plane.kubeconfig)
    found["group"] = Actor(administrator, "team-vision", user="ann", group="ml-vision")
    yield found
    for actor in found.values():
        actor.server.api.close()


def _let_edit(kube: Kube, namespace: str, account: str) -> None:
    metadata = {"name": account, "namespace": namespace}
    kube.api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    subject = {"kind": "ServiceAccount", **metadata}
    binding = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": metadata}
    kube.api.create({**binding, "roleRef": _EDIT, "subjects": [subject]})


def _kubeconfig(plane: ControlPlane, file: Path, token: str) -> Path:
    config: dict[str, Any] = json.loads(plane.kubeconfig.read_text(encoding="utf-8"))
    config["users"][0]["user"] = {"token": token}
    file.write_text(json.dumps(config), encoding="utf-8")
    return file
