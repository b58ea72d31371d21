"""The kubelet's half of the device plugin API: takes registrations, lists devices, asks for allocations.

A kubelet calls a plugin back at its leisure; this one does while the plugin waits for the answer to its
registration, so that all is known once the plugin has registered everything, and nothing is waited for.
API: k8s.io/kubelet, pkg/apis/deviceplugin/v1beta1. Only fields that are used here are described.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from tests.nvidia.node import SOCKETS, Ended, Node

_PACKAGE = "v1beta1"
_FIELDS = descriptor_pb2.FieldDescriptorProto
_MESSAGES = {
    "Empty": (),
    "RegisterRequest": (("version", "string"), ("endpoint", "string"), ("resource_name", "string")),
    "Device": (("ID", "string"), ("health", "string")),
    "ListAndWatchResponse": (("devices", "Device"),),
    "ContainerAllocateRequest": (("devices_ids", "strings"),),
    "AllocateRequest": (("container_requests", "ContainerAllocateRequest"),),
    "Env": (("key", "string"), ("value", "string")),
    "ContainerAllocateResponse": (("envs", "Env"),),
    "AllocateResponse": (("container_responses", "ContainerAllocateResponse"),),
}
"""Message -> its first fields in order; a field of another message is repeated (a map is a list of pairs)."""
_DONE = ("Registered device plugin for", "Waiting indefinitely", "Retrying in 30s")
"""The plugin's own lines after which it has begun to look for signals."""


def _types() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="kubelet.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, (key, kind) in enumerate(fields, 1):
            plain = kind in ("string", "strings")
            message.field.add(
                name=key,
                number=number,
                label=_FIELDS.LABEL_OPTIONAL if kind == "string" else _FIELDS.LABEL_REPEATED,
                type=_FIELDS.TYPE_STRING if plain else _FIELDS.TYPE_MESSAGE,
                type_name=None if plain else f".{_PACKAGE}.{kind}",
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
        for name in _MESSAGES
    }


_TYPE = _types()


@dataclass
class Offer:
    """What a plugin offers as one resource."""

    devices: list[str]
    """Their ids, of those that are healthy."""
    allocated: dict[int, str | dict[str, str]] = field(default_factory=dict)
    """Devices that one container asks for -> its environment, or why that is refused."""


def advertised(node: Node, strategy: str | None = None) -> dict[str, Offer]:
    """What the device plugin registers on the node, by resource. Raises Ended where it fails."""
    offers: dict[str, Offer] = {}
    with _kubelet(node, offers):
        command = node.command("nvidia-device-plugin")
        process = subprocess.Popen(
            command, env=node.environment(strategy), stderr=subprocess.PIPE, text=True, bufsize=1
        )
        log = []
        try:
            assert process.stderr is not None
            for line in process.stderr:
                log.append(line)
                if any(text in line for text in _DONE):
                    process.terminate()
            code = process.wait(timeout=30)
        finally:
            process.kill()
    failed = [line for line in log if "Failed to start plugin" in line]
    if code != 0 or failed:
        raise Ended("".join(failed or log))
    return offers


@contextmanager
def _kubelet(node: Node, offers: dict[str, Offer]) -> Iterator[None]:
    """A kubelet that keeps what is registered with it."""
    folder = node.root / SOCKETS

    def register(request: Any, _: grpc.ServicerContext) -> Any:
        with grpc.insecure_channel(f"unix:{folder / request.endpoint}") as channel:
            offers[request.resource_name] = _offer(channel)
        return _TYPE["Empty"]()

    server = grpc.server(ThreadPoolExecutor(1))
    method = grpc.unary_unary_rpc_method_handler(
        register,
        request_deserializer=_TYPE["RegisterRequest"].FromString,
        response_serializer=_TYPE["Empty"].SerializeToString,
    )
    service = grpc.method_handlers_generic_handler(f"{_PACKAGE}.Registration", {"Register": method})
    server.add_generic_rpc_handlers((service,))
    server.add_insecure_port(f"unix:{folder / 'kubelet.sock'}")
    server.start()
    try:
        yield
    finally:
        server.stop(0).wait()


def _offer(channel: grpc.Channel) -> Offer:
    call = channel.unary_stream(
        f"/{_PACKAGE}.DevicePlugin/ListAndWatch",
        request_serializer=_TYPE["Empty"].SerializeToString,
        response_deserializer=_TYPE["ListAndWatchResponse"].FromString,
    )(_TYPE["Empty"](), timeout=10)
    listed = next(call)
    call.cancel()
    offer = Offer([device.ID for device in listed.devices if device.health == "Healthy"])
    for count in (1, 2):
        if count <= len(offer.devices):
            offer.allocated[count] = _allocate(channel, offer.devices[:count])
    return offer


def _allocate(channel: grpc.Channel, devices: list[str]) -> str | dict[str, str]:
    call = channel.unary_unary(
        f"/{_PACKAGE}.DevicePlugin/Allocate",
        request_serializer=_TYPE["AllocateRequest"].SerializeToString,
        response_deserializer=_TYPE["AllocateResponse"].FromString,
    )
    container = _TYPE["ContainerAllocateRequest"](devices_ids=devices)
    try:
        answer = call(_TYPE["AllocateRequest"](container_requests=[container]), timeout=10)
    except grpc.RpcError as error:
        return str(error.details())  # type: ignore[attr-defined]
    return {pair.key: pair.value for pair in answer.container_responses[0].envs}
