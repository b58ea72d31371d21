"""What the real API server can't read, which the engine says of the same objects in its unit test."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpupool.local.control_plane import ControlPlane
from tests.cluster.policies.server import Server
from tests.vapcheck.admission.decoding_cases import READ, UNREAD

CASES = [(body, True) for body in READ] + [(body, False) for body in UNREAD]


@pytest.fixture(scope="module")
def server(control_plane: ControlPlane) -> Server:
    return Server(control_plane.status().kubeconfig)


@pytest.mark.parametrize(("body", "read"), CASES, ids=lambda part: json.dumps(part)[-70:])
def test_as_the_server(server: Server, body: dict[str, Any], read: bool) -> None:
    answer = server.ask("CREATE", body)
    assert (answer.status != 400) is read, answer.message
