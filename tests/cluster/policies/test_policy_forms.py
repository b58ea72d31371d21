"""Which forms of policies and bindings the API server takes, and that the engine's reader takes the same.

Each is one server-side dry run, with the strictness that kubectl has. The forms: tests/vapcheck/engine.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cluster.policies.server import Server
from tests.vapcheck.engine.policy_forms import REFUSED, TAKEN, Object, form, odd_forms, refusals


@pytest.fixture(scope="module")
def server(compared: Path) -> Server:
    return Server(compared)


def takes(server: Server, body: Object) -> bool:
    """Whether the server would create the object; an answer that is neither yes nor no fails the test."""
    # The name in a path is of no use to CREATE, and of these bodies not always a text.
    where = server.api.require(body["apiVersion"], body["kind"])
    answer = server.send("POST", where.collection(None), body, strict=True)
    assert answer.status in (201, 400, 422), answer
    return answer.status == 201


@pytest.mark.parametrize(("path", "value"), REFUSED)
def test_the_server_refuses(server: Server, path: str, value: Any) -> None:
    assert not takes(server, form(path, value))


@pytest.mark.parametrize(("path", "value"), TAKEN)
def test_the_server_takes(server: Server, path: str, value: Any) -> None:
    assert takes(server, form(path, value))


def test_the_engine_says_the_same_of_odd_forms(server: Server) -> None:
    forms = list(odd_forms())
    refused = {name: bool(refusals(body)) for name, body in forms}
    wrong = [name for name, body in forms if takes(server, body) is refused[name]]
    assert not wrong, f"{len(wrong)} of {len(forms)}: " + "; ".join(wrong[:10])
    assert 100 < list(refused.values()).count(False) < len(forms) - 500
