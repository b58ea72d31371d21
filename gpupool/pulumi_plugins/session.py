"""One engine's connection to the stand-in provider: its cluster, its warnings, and its errors and states.

What crosses the protocol besides the calls themselves: how an object is kept in Pulumi's state, and how
a failure is reported so that the engine keeps what was done before it.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import any_pb2
from google.rpc import status_pb2
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc, provider_pb2

from gpupool.cluster.kube_api import ApiError, KubeApi
from gpupool.findings import GpupoolError
from gpupool.pulumi_plugins.objects import NotReadyError, Objects
from gpupool.pulumi_plugins.values import mark_secrets, to_struct


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
                    upsert=self.flag("upsertExistingObjects"),
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


class Reported:
    """Turns what went wrong into the engine's errors: plain text, and the state where there is some."""

    def __init__(self, context: Any, secret: Any, inputs: Any, manager: str) -> None:
        self._context, self._secret, self._inputs, self._manager = context, secret, inputs, manager

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, NotReadyError):
            self._init_failed(error)
        elif isinstance(error, GpupoolError):
            # Never UNAVAILABLE: the engine takes that for a plugin that is shutting down and hides the text.
            self._context.abort(grpc.StatusCode.UNKNOWN, explain(error))

    def _init_failed(self, error: NotReadyError) -> None:
        state = checkpoint(error.live, self._secret, self._inputs, self._manager)
        detail = provider_pb2.ErrorResourceInitFailed(
            id=object_id(error.live), properties=to_struct(state), reasons=[str(error)]
        )
        packed = any_pb2.Any()
        packed.Pack(detail)
        status = status_pb2.Status(
            code=grpc.StatusCode.UNKNOWN.value[0], message=str(error), details=[packed]
        )
        self._context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
        self._context.abort(grpc.StatusCode.UNKNOWN, str(error))


def explain(error: GpupoolError) -> str:
    """The server's message and, depending on the reason, what to do about it."""
    if not isinstance(error, ApiError):
        return str(error)
    if error.reason == "Conflict" and error.causes:
        return f"{error}; somebody else owns these fields: undo their change, or take the field out of ours"
    if error.reason == "Forbidden" and "exceeded quota" not in str(error):
        return f"{error}; check the rights of the kubeconfig's user, and the cluster's admission policies"
    return str(error)


def checkpoint(live: dict[str, Any], secret: Any, inputs: Any, manager: str) -> dict[str, Any]:
    """The state as pulumi-kubernetes keeps it: the live object, what we asked for, who owns our fields."""
    state: dict[str, Any] = mark_secrets(live, secret)
    if live.get("kind") == "Secret" and "data" in live and "stringData" in inputs:
        state["data"] = mark_secrets(live["data"], secret.get("stringData"))
    state["__inputs"] = mark_secrets(inputs, secret)
    state["__initialApiVersion"] = inputs.get("apiVersion", "")
    state["__fieldManager"] = manager
    return state


def object_id(live: dict[str, Any]) -> str:
    """namespace/name, or name: the id that pulumi-kubernetes uses."""
    namespace = live["metadata"].get("namespace")
    return f"{namespace}/{live['metadata']['name']}" if namespace else str(live["metadata"]["name"])
