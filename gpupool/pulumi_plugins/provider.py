"""A stand-in for Pulumi's Kubernetes provider plugin, where the plugin is not available.

Implements the engine's provider protocol and keeps state in the shape of pulumi-kubernetes 4.34 (the live
object plus __inputs, __initialApiVersion, __fieldManager), so that a later `up` with the plugin finds
what it knows. Does what the program relies on, and not more: no Helm releases beyond preview, waiting for
objects to become ready, secrets, values known only after `up`, invokes, components, client-side apply. Used
only where `pulumi_env` finds no plugin.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc

from gpupool.cluster.kube_api import UnreachableError
from gpupool.cluster.kubeconfig import KubeconfigError
from gpupool.cluster.live_objects import as_sent
from gpupool.objects.changes import Change, changes
from gpupool.pulumi_plugins import callers
from gpupool.pulumi_plugins.diff import drifted_inputs, replaces
from gpupool.pulumi_plugins.env import NO_CHARTS
from gpupool.pulumi_plugins.objects import FIELD_MANAGER, annotation
from gpupool.pulumi_plugins.session import Session, checkpoint, object_id, reported
from gpupool.pulumi_plugins.values import from_struct, to_struct

VERSION = "4.34.2"
"""The version of pulumi-kubernetes whose behaviour it follows."""

_THREADS = 128
_MESSAGE_BYTES = 400 * 1024 * 1024
_DIFF = provider_pb2.PropertyDiff
_KINDS = {
    ("add", False): _DIFF.ADD,
    ("add", True): _DIFF.ADD_REPLACE,
    ("delete", False): _DIFF.DELETE,
    ("delete", True): _DIFF.DELETE_REPLACE,
    ("update", False): _DIFF.UPDATE,
    ("update", True): _DIFF.UPDATE_REPLACE,
}
_HELM = "kubernetes:helm.sh/v3:Release"


class KubernetesProvider(provider_pb2_grpc.ResourceProviderServicer):
    """The protocol. Several engines may be connected at once: each connection has its own session."""

    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}

    def _session(self, context: grpc.ServicerContext) -> Session:
        return self._sessions.setdefault(context.peer(), Session())

    # -- the plugin itself ---------------------------------------------------------------------------

    def Handshake(self, request: Any, context: Any) -> Any:
        self._session(context).engine = request.engine_address
        return provider_pb2.ProviderHandshakeResponse(accept_resources=True, accept_outputs=True)

    def Attach(self, request: Any, context: Any) -> Any:
        self._session(context).engine = request.address
        return empty_pb2.Empty()

    def GetPluginInfo(self, request: Any, context: Any) -> Any:
        return plugin_pb2.PluginInfo(version=VERSION)

    def GetSchema(self, request: Any, context: Any) -> Any:
        return provider_pb2.GetSchemaResponse(schema=json.dumps({"name": "kubernetes", "version": VERSION}))

    def Cancel(self, request: Any, context: Any) -> Any:
        self._session(context).cancelled.set()
        return empty_pb2.Empty()

    def CheckConfig(self, request: Any, context: Any) -> Any:
        return provider_pb2.CheckResponse(inputs=request.news)

    def DiffConfig(self, request: Any, context: Any) -> Any:
        texts = [c.text for c in changes(from_struct(request.olds), from_struct(request.news))]
        changed = texts and [name for name in texts if name != "version"]
        state = provider_pb2.DiffResponse.DIFF_SOME if changed else provider_pb2.DiffResponse.DIFF_NONE
        return provider_pb2.DiffResponse(changes=state, diffs=changed)

    def Configure(self, request: Any, context: Any) -> Any:
        session = self._session(context)
        session.options = {key: _text(value) for key, value in from_struct(request.args).items()}
        session.cancelled.clear()
        return provider_pb2.ConfigureResponse(supportsPreview=True, acceptResources=True, acceptOutputs=True)

    # -- one object ----------------------------------------------------------------------------------

    def Check(self, request: Any, context: Any) -> Any:
        """Refuse a body without kind or name, for which the cluster's error would be unclear."""
        if _is_helm(request.urn):
            return provider_pb2.CheckResponse(inputs=request.news)
        body = from_struct(request.news)
        missing = [key for key in ("apiVersion", "kind") if not body.get(key)]
        if not (body.get("metadata") or {}).get("name"):
            missing.append("metadata.name")
        failures = [provider_pb2.CheckFailure(property=name, reason=f"{name} is missing") for name in missing]
        return provider_pb2.CheckResponse(inputs=request.news, failures=failures)

    def Diff(self, request: Any, context: Any) -> Any:
        old = from_struct(request.old_inputs) or from_struct(request.olds).get("__inputs") or {}
        new = from_struct(request.news)
        kind = "" if _is_patch(request.urn, new) else str(new.get("kind", ""))
        if kind == "ConfigMap" and self._session(context).flag("enableConfigMapMutable"):
            kind = ""
        found = list(changes(old, new))
        if _is_helm(request.urn):
            return _diff_response([(change, False) for change in found], same_name=True)
        marked = [(change, replaces(change.path, kind)) for change in found]
        return _diff_response(marked, same_name=_identity(old) == _identity(new))

    def Create(self, request: Any, context: Any) -> Any:
        if _is_helm(request.urn):
            if not request.preview:
                context.abort(grpc.StatusCode.UNIMPLEMENTED, NO_CHARTS)
            return provider_pb2.CreateResponse(id="", properties=request.properties)
        inputs = from_struct(request.properties)
        session, manager = self._session(context), _manager(inputs, {})
        patch = _is_patch(request.urn, inputs)
        with reported(context):
            live = self._previewable(
                session,
                request,
                inputs,
                lambda: session.objects().create(inputs, manager, patch, request.preview),
            )
        state = checkpoint(live, inputs, manager)
        return provider_pb2.CreateResponse(
            id="" if request.preview else object_id(live), properties=to_struct(state)
        )

    def Update(self, request: Any, context: Any) -> Any:
        if _is_helm(request.urn):
            if not request.preview:
                context.abort(grpc.StatusCode.UNIMPLEMENTED, NO_CHARTS)
            return provider_pb2.UpdateResponse(properties=request.news)
        inputs = from_struct(request.news)
        session, manager = self._session(context), _manager(inputs, from_struct(request.olds))
        with reported(context):
            live = self._previewable(
                session,
                request,
                inputs,
                lambda: session.objects().update(inputs, manager, request.preview),
            )
        return provider_pb2.UpdateResponse(properties=to_struct(checkpoint(live, inputs, manager)))

    def Read(self, request: Any, context: Any) -> Any:
        """The object as it is now, and as inputs what somebody else has made of ours (drift)."""
        before = from_struct(request.properties)
        inputs = from_struct(request.inputs)
        if _is_helm(request.urn):
            return provider_pb2.ReadResponse(
                id=request.id, properties=request.properties, inputs=request.inputs
            )
        api_version, kind = _kind_of(request.urn, inputs or before)
        namespace, _, name = request.id.rpartition("/")
        with reported(context):
            live = self._session(context).objects().read(api_version, kind, namespace or None, name)
        if live is None:
            return provider_pb2.ReadResponse(id="")
        # For import and .get: what a program would write to get this object.
        now = drifted_inputs(inputs, before, live) if inputs and before else as_sent(live)
        state = checkpoint(live, now, _manager(inputs or live, before))
        return provider_pb2.ReadResponse(id=request.id, properties=to_struct(state), inputs=to_struct(now))

    def Delete(self, request: Any, context: Any) -> Any:
        if _is_helm(request.urn):
            context.abort(grpc.StatusCode.UNIMPLEMENTED, NO_CHARTS)
        state = from_struct(request.properties)
        inputs = from_struct(request.old_inputs) or state["__inputs"]
        namespace, _, name = request.id.rpartition("/")
        target = {**inputs, "metadata": {**inputs["metadata"], "name": name}}
        if namespace:
            target["metadata"]["namespace"] = namespace
        objects, manager = self._session(context).objects, _manager(inputs, state)
        with reported(context):
            if _is_patch(request.urn, inputs):
                objects().relinquish(target, manager)
            else:
                objects().delete(target, request.timeout)
        return empty_pb2.Empty()

    # -- parts ---------------------------------------------------------------------------------------

    def _previewable(
        self, session: Session, request: Any, inputs: dict[str, Any], act: Callable[[], dict[str, Any]]
    ) -> dict[str, Any]:
        """Do it; a preview shows the inputs where the cluster is not to be had yet."""
        try:
            return act()
        except (UnreachableError, KubeconfigError) as error:
            if not request.preview:
                raise
            session.warn(request.urn, f"previewed without asking the cluster: {error}")
            return inputs


def _diff_response(found: list[tuple[Change, bool]], same_name: bool) -> Any:
    new = [change.text for change, replace in found if replace]
    response = provider_pb2.DiffResponse
    return response(
        changes=response.DIFF_SOME if found else response.DIFF_NONE,
        replaces=new,
        deleteBeforeReplace=bool(new) and same_name,
        hasDetailedDiff=True,
        diffs=sorted({str(change.path[0]) for change, _ in found}),
        detailedDiff={
            change.text: _DIFF(kind=_KINDS[(change.kind, replace)], inputDiff=True)
            for change, replace in found
        },
    )


def _identity(body: dict[str, Any]) -> tuple[Any, Any]:
    metadata = body.get("metadata") or {}
    return metadata.get("namespace"), metadata.get("name")


def _manager(inputs: dict[str, Any], state: dict[str, Any]) -> str:
    named = annotation(inputs, "pulumi.com/patchFieldManager") if "metadata" in inputs else ""
    return named or str(state.get("__fieldManager") or FIELD_MANAGER)


def _type_of(urn: str) -> str:
    return urn.split("::")[2].rpartition("$")[2]


def _is_helm(urn: str) -> bool:
    return _type_of(urn) == _HELM


def _is_patch(urn: str, inputs: dict[str, Any]) -> bool:
    return _type_of(urn).rpartition(":")[2] == f"{inputs.get('kind')}Patch"


def _kind_of(urn: str, body: dict[str, Any]) -> tuple[str, str]:
    if body.get("kind"):
        return body["apiVersion"], body["kind"]
    _, module, kind = _type_of(urn).split(":")
    return module.removeprefix("core/"), kind.removesuffix("Patch")


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def serve() -> tuple[grpc.Server, int]:
    """Start answering this account on a port of 127.0.0.1: the server (`.stop(None)` ends it), the port."""
    options = [
        ("grpc.max_receive_message_length", _MESSAGE_BYTES),
        ("grpc.max_send_message_length", _MESSAGE_BYTES),
    ]
    server = callers.server(ThreadPoolExecutor(_THREADS, "kubernetes-provider"), options=options)
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(KubernetesProvider(), server)
    bound = server.add_insecure_port(f"{callers.ADDRESS}:0")
    server.start()
    return server, bound
