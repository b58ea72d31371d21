"""What the tests say to a cluster and ask of it: get, apply, delete, wait, and wipe, on
`gpupool.live.cluster.kube_api`."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from gpupool.live.cluster.kube_api import ApiError, UnreachableError
from gpupool.local import crds
from gpupool.local.components import PROGRAMS
from gpupool.local.control_plane import ControlPlane
from gpupool.local.instance import Instance
from gpupool.programs import binaries
from tests.required_programs import require_definitions

Object = dict[str, Any]
POLL_SECONDS = 0.1
PATIENCE_SECONDS = 180.0
"""After this something hangs. What tests wait for takes seconds, and several times that on a busy machine."""
_REMOVE_AGAIN_SECONDS = 3.0
_WIPED = (
    ("apps/v1", "Deployment"),
    ("batch/v1", "Job"),
    ("karpenter.sh/v1", "NodePool"),
    ("karpenter.sh/v1alpha1", "NodeOverlay"),
    ("nvidia.com/v1", "ClusterPolicy"),
)
_OURS = (
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding"),
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"),
    ("scheduling.k8s.io/v1", "PriorityClass"),
)
"""Kinds of which the server has objects of its own, so that only gpupool's are wiped."""
_MANAGED = "app.kubernetes.io/managed-by=gpupool"
_SYSTEM_NAMESPACES = {"default", "kube-system", "kube-public", "kube-node-lease"}


class Kube:
    """Get, apply, delete and wait, with messages that say what was there instead."""

    def __init__(self, plane: ControlPlane) -> None:
        self.api = plane.api()
        self._plane = plane

    @contextlib.contextmanager
    def at_once(self) -> Iterator[None]:
        """Karpenter stands still meanwhile, and then sees all pods made in the block together.

        It knows the slices of a node only once the node offers them: for pods that arrive while their node
        starts it starts another one, so counts of nodes hold for pods of one batch (Karpenter 1.14.1).
        """
        with self.still("karpenter"):
            yield
            self.wait("the scheduler has seen every pod", self._every_pod_judged)

    @contextlib.contextmanager
    def still(self, component: str) -> Iterator[None]:
        """The component of the control plane does nothing meanwhile, as one that is busy elsewhere."""
        pid = self._pid(component)
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def restart(self, component: str) -> None:
        """Kill the component of the control plane and start it again; returns once the API server answers."""
        process = psutil.Process(self._pid(component))
        process.kill()
        with contextlib.suppress(psutil.TimeoutExpired):  # its port is free once it has gone
            process.wait(30)
        programs = binaries.locate_all(PROGRAMS, lambda _: None)
        with Instance.locked(self._plane.layout, make=False) as instance:
            instance.start((component,), programs, lambda _: None)
        self.wait("the API server is back", self._answers)

    def _pid(self, component: str) -> int:
        pid = next(part.pid for part in self._plane.status().components if part.name == component)
        assert pid is not None
        return pid

    def _answers(self) -> bool:
        with contextlib.suppress(ApiError, UnreachableError):
            return bool(self.api.request("GET", "/readyz"))
        return False

    @contextlib.contextmanager
    def kinds(self, listing: Path) -> Iterator[Kube]:
        """The server knows the kinds of a listing (`gpupool.local.crds`) meanwhile: the cluster with them."""
        wanted = require_definitions(listing)
        crds.serve(self.api, wanted)
        yield self
        for definition in wanted:
            name = definition["metadata"]["name"]
            self.api.delete("apiextensions.k8s.io/v1", "CustomResourceDefinition", name)
        groups = {definition["spec"]["group"] for definition in wanted}
        # Tests that list every kind would else come upon one that goes while they look.
        self.wait("the kinds are gone", lambda: not groups & self._groups())

    def _groups(self) -> set[str]:
        return {group["name"] for group in self.api.request("GET", "/apis")[1]["groups"]}

    def _every_pod_judged(self) -> bool:
        fresh = [
            pod["metadata"]["name"]
            for pod in self.api.list("v1", "Pod")
            if not pod["status"].get("conditions")
        ]
        assert not fresh, f"not judged yet: {fresh}"
        return True

    def apply(self, *things: Object) -> None:
        """Server-side apply of each; one without a namespace goes to `default` if its kind wants one."""
        for thing in things:
            self.api.apply(thing, "tests", force=True)

    def get(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> Object:
        """The object; fails the test when there is none."""
        found = self.api.get(api_version, kind, name, namespace)
        assert found is not None, f"there is no {kind} {namespace or ''}/{name}"
        return found

    def node(self, name: str) -> Object:
        return self.get("v1", "Node", name)

    def nodes(self, selector: str = "") -> list[Object]:
        return self.api.list("v1", "Node", selector=selector)

    def pods(self, namespace: str = "default", selector: str = "") -> list[Object]:
        return self.api.list("v1", "Pod", namespace, selector)

    def running(self, namespace: str = "default", selector: str = "") -> list[Object]:
        return [pod for pod in self.pods(namespace, selector) if pod["status"].get("phase") == "Running"]

    def events(self, name: str, namespace: str | None = None) -> list[str]:
        """`reason: message` of every event about an object of that name."""
        found = self.api.list("v1", "Event", namespace)
        return [
            f"{event['reason']}: {event.get('message', '')}"
            for event in found
            if event["involvedObject"].get("name") == name
        ]

    def label(self, node: str, **labels: str | None) -> None:
        """Set or (None) remove labels of a node; `__` in a key stands for `/` and `_` for `-`."""
        fixed = {key.replace("__", "/").replace("_", "-"): value for key, value in labels.items()}
        self.patch_node(node, {"metadata": {"labels": fixed}})

    def patch_node(self, node: str, body: Object) -> None:
        self.api.patch("v1", "Node", node, body)

    def wait(self, what: str, check: Callable[[], Any], timeout: float = PATIENCE_SECONDS) -> Any:
        """Wait until `check` gives something true, and return it.

        A check that raises AssertionError is not there yet, nor one that a busy server had no time for;
        what it said last is in the failure. `timeout` may ask for more patience than is usual, not for less.
        """
        timeout = max(timeout, PATIENCE_SECONDS)
        deadline = time.monotonic() + timeout
        said: object = None
        while True:
            try:
                outcome = check()
                if outcome:
                    return outcome
                said = outcome
            except (AssertionError, UnreachableError) as error:
                said = error
            except ApiError as error:
                if error.status != 429 and error.status < 500:
                    raise
                said = error
            if time.monotonic() > deadline:
                pytest.fail(f"after {timeout:.0f} s still not: {what}; last seen: {said}\n{self.summary()}")
            time.sleep(POLL_SECONDS)

    def stays(self, what: str, check: Callable[[], Any], seconds: float = 2.0) -> None:
        """Fail as soon as `check` gives something false within `seconds`."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            assert check(), f"no longer: {what}\n{self.summary()}"
            time.sleep(POLL_SECONDS)

    def summary(self) -> str:
        """Nodes, claims and pods in a few lines, for failure messages."""
        lines = []
        for node in self.nodes():
            notes = node["metadata"].get("annotations", {})
            gpus = {k: v for k, v in node["status"].get("allocatable", {}).items() if "nvidia" in k}
            error = notes.get("simulated.gpupool.dev/error", "")
            taints = [taint["key"] for taint in node["spec"].get("taints", [])]
            lines.append(f"node {node['metadata']['name']} {json.dumps(gpus)} taints={taints} {error}")
        for claim in self._list("karpenter.sh/v1", "NodeClaim"):
            conditions = {row["type"]: row["status"] for row in claim.get("status", {}).get("conditions", [])}
            lines.append(f"claim {claim['metadata']['name']} {conditions}")
        for pod in self.api.list("v1", "Pod"):
            said = [row["message"] for row in pod["status"].get("conditions", []) if row.get("message")]
            where = pod["spec"].get("nodeName", "-")
            lines.append(f"pod {pod['metadata']['name']} {pod['status'].get('phase')} {where} {said}")
        return "\n".join(lines[:60])

    def wipe(self, keep: frozenset[str] = frozenset()) -> None:
        """Remove everything that a test may have made, without waiting for graceful ends.

        Namespaces in `keep` are emptied of ConfigMaps only: deleting one takes the server five seconds.
        """
        again = 0.0

        def gone() -> bool:
            nonlocal again
            if time.monotonic() >= again:  # a controller may have made one more meanwhile
                self._remove(keep)
                again = time.monotonic() + _REMOVE_AGAIN_SECONDS
            return self._is_empty(keep)

        self.wait("everything of the test is gone", gone)

    def _remove(self, keep: frozenset[str]) -> None:
        for version, kind in _OURS:
            self._delete_all(version, kind, selector=_MANAGED)
        for version, kind in _WIPED:
            self._delete_all(version, kind, unblock=kind == "Job")
        # Each time: the Job controller may have made one more since, with the finalizer of its template.
        self._delete_all("v1", "Pod", grace=0, unblock=True)
        self._delete_all("karpenter.sh/v1", "NodeClaim", unblock=True)
        self._delete_all("v1", "Node", unblock=True)
        self._delete_all("karpenter.kwok.sh/v1alpha1", "KWOKNodeClass", unblock=True)
        for name in self._namespaces() - _SYSTEM_NAMESPACES - keep:
            self.api.delete("v1", "Namespace", name)
        for name in keep & self._namespaces():
            self._delete_all("v1", "ConfigMap", namespace=name)

    def _namespaces(self) -> set[str]:
        return {item["metadata"]["name"] for item in self.api.list("v1", "Namespace")}

    def _is_empty(self, keep: frozenset[str]) -> bool:
        kinds = (*_WIPED, ("v1", "Pod"), ("karpenter.sh/v1", "NodeClaim"), ("v1", "Node"))
        rest = [thing for version, kind in kinds for thing in self._list(version, kind)]
        for version, kind in _OURS:
            rest += self._list(version, kind, selector=_MANAGED)
        names = [f"{thing['kind']} {thing['metadata']['name']}" for thing in rest]
        assert not names, f"still there: {names}"
        left = self._namespaces() - _SYSTEM_NAMESPACES - keep
        assert not left, f"namespaces still there: {sorted(left)}"
        refused = self._refused_by_policy()
        assert not refused, f"a policy that was deleted still acts: {refused}"
        return True

    def _refused_by_policy(self) -> str:
        """What a policy says against a pod that reaches the host. The server goes on with policies that are
        deleted for seconds where the machine is busy; it takes them up and gives them up as one set."""
        container = {"name": "probe", "image": "probe"}
        spec = {"hostNetwork": True, "automountServiceAccountToken": False, "containers": [container]}
        probe = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe"}, "spec": spec}
        try:
            self.api.request("POST", "/api/v1/namespaces/default/pods", {"dryRun": "All"}, probe)
        except ApiError as error:
            return str(error) if "ValidatingAdmissionPolicy" in str(error) else ""
        return ""

    def _list(
        self, version: str, kind: str, namespace: str | None = None, selector: str | None = None
    ) -> list[Object]:
        try:
            return self.api.list(version, kind, namespace, selector)
        except ApiError as error:
            if error.status != 404:  # the kind is served in some tests alone
                raise
            return []

    def _delete_all(
        self,
        version: str,
        kind: str,
        grace: int | None = None,
        unblock: bool = False,
        namespace: str | None = None,
        selector: str | None = None,
    ) -> None:
        """Delete every object of a kind; `unblock` removes finalizers that nothing acts on."""
        found = self._list(version, kind, namespace, selector)
        if found and kind == "Node":  # hundreds by one request
            self.api.request("DELETE", "/api/v1/nodes")
        for thing in found:
            meta = thing["metadata"]
            if kind == "Node" and not meta.get("finalizers"):
                continue
            self.api.delete(version, kind, meta["name"], meta.get("namespace"), grace)
            if unblock and meta.get("finalizers"):
                with contextlib.suppress(ApiError):  # it may have gone by itself meanwhile
                    body = {"metadata": {"finalizers": None}}
                    self.api.patch(version, kind, meta["name"], body, meta.get("namespace"))
