"""How the toolkit and the device plugin are configured so that containers get GPUs by request alone."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.environment.spec.environment import GpuOperator
from gpupool.generators.device_requests import values

NO_VARIABLE = {"name": "ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED", "value": "false"}
MOUNTS = {"name": "ACCEPT_NVIDIA_VISIBLE_DEVICES_AS_VOLUME_MOUNTS", "value": "true"}
STRATEGY = {"name": "DEVICE_LIST_STRATEGY", "value": "volume-mounts"}
BY_CDI = {"toolkit": {"env": [NO_VARIABLE]}}
BY_MOUNTS = {"toolkit": {"env": [NO_VARIABLE, MOUNTS]}, "devicePlugin": {"env": [STRATEGY]}}
SOCKET = {"name": "CONTAINERD_SOCKET", "value": "/run/k3s/containerd/containerd.sock"}


def operator(version: str, **given: Any) -> GpuOperator:
    return GpuOperator(version=version, values=given)


@pytest.mark.parametrize(
    ("version", "given", "expected"),
    [
        ("v26.7.0", {}, BY_CDI),
        ("v25.10.1", {}, BY_CDI),
        ("v99.1.0", {}, BY_CDI),
        ("v25.3.2", {}, BY_MOUNTS),
        ("v26.7.0", {"cdi": {"enabled": False}}, BY_MOUNTS),
        ("v25.3.2", {"cdi": {"enabled": True}}, BY_CDI),
        ("v26.7.0", {"toolkit": {"enabled": False}}, {}),
        ("v26.7.0", {"toolkit": {"env": [SOCKET]}}, {"toolkit": {"env": [SOCKET, NO_VARIABLE]}}),
        (
            "v26.7.0",
            {"toolkit": {"env": [{**NO_VARIABLE, "value": "true"}]}},
            {"toolkit": {"env": [NO_VARIABLE]}},
        ),
    ],
    ids=[
        *(
            "CDI by default",
            "first release with CDI",
            "a newer release",
            "before CDI",
            "CDI off",
            "CDI on early",
        ),
        *("toolkit of the image", "beside the user's", "instead of the user's"),
    ],
)
def test_values(version: str, given: dict[str, Any], expected: dict[str, Any]) -> None:
    assert values(operator(version, **given)) == expected
