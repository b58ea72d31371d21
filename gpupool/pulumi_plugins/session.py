"""One engine's connection to the stand-in provider: its cluster, its warnings, and its errors and states.

What crosses the protocol besides the calls themselves: how an object is kept in Pulumi's state, and how
a failure is reported.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc

from gpupool.cluster.kube_api import ApiError, KubeApi
from gpupool.findings import GpupoolError
from gpupool.pulumi_plugins.objects import Objects


@dataclass
class Session:
    """The settings of one engine connection; an engine opens one per provider instance."""

    engine: str = ""
    options: dict[str, str] = field(default_factory=dict)
    warned: bool = False
    cancelled: threading.Event = field(default_factory=threading.Event)
    _objects: Objects | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def objects(self) -> Objects:
        """The cluster this provider is configured for. Raises KubeconfigError."""
        with self._lock:
            if self._objects is None:
                path = Path(self.options["kubeconfig"]) if self.options.get("kubeconfig") else None
                self._objects = Objects(
                    KubeApi.connect(path, self.options.get("context") or None),
                    force=self.flag("enablePatchForce"),
                    cancelled=self.cancelled,
                )
            return self._objects

    def flag(self, name: str) -> bool:
        return self.options.get(name) == "true"

    def warn(self, urn: str, message: str) -> None:
        """Show a warning once per run; a missing engine is no reason to fail."""
        if self.warned or not self.engine:
            return
        self.warned = True
        with grpc.insecure_channel(self.engine) as channel:
            request = engine_pb2.LogRequest(severity=engine_pb2.WARNING, message=message, urn=urn)
            engine_pb2_grpc.EngineStub(channel).Log(request, timeout=5)


@contextmanager
def reported(context: Any) -> Iterator[None]:
    """Turns what went wrong into the engine's error: plain text."""
    try:
        yield
    except GpupoolError as error:
        # Never UNAVAILABLE: the engine takes that for a plugin that is shutting down and hides the text.
        context.abort(grpc.StatusCode.UNKNOWN, explain(error))


def explain(error: GpupoolError) -> str:
    """The server's message and, depending on the reason, what to do about it."""
    if not isinstance(error, ApiError):
        return str(error)
    if error.reason == "Conflict" and error.causes:
        return f"{error}; somebody else owns these fields: undo their change, or take the field out of ours"
    if error.reason == "Forbidden" and "exceeded quota" not in str(error):
        return f"{error}; check the rights of the kubeconfig's user, and the cluster's admission policies"
    return str(error)


def checkpoint(live: dict[str, Any], inputs: Any, manager: str) -> dict[str, Any]:
    """The state as pulumi-kubernetes keeps it: the live object, what we asked for, who owns our fields."""
    kept = {
        "__inputs": inputs,
        "__initialApiVersion": inputs.get("apiVersion", ""),
        "__fieldManager": manager,
    }
    return {**live, **kept}


def object_id(live: dict[str, Any]) -> str:
    """namespace/name, or name: the id that pulumi-kubernetes uses."""
    namespace = live["metadata"].get("namespace")
    return f"{namespace}/{live['metadata']['name']}" if namespace else str(live["metadata"]["name"])
