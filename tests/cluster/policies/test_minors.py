"""The engine against API servers of each known minor, as far as no controller is needed: `make test-all`
alone, since the servers of older minors are built for it, minutes each the first time.

What they said of cases in which minors differ is recorded, and compared with the engine in every run
(tests/vapcheck/minors); here they are asked again, and the suites about the newest minor are put to each.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from gpupool.local.bare_server import bare_server
from gpupool.local.control_plane import ControlPlane
from tests.cluster.policies.admission_recorder import recording
from tests.cluster.policies.cel_engine import engine_outcome
from tests.cluster.policies.cel_server import CelServer
from tests.cluster.policies.server import Server
from tests.cluster.policies.test_admission_view import CASES, compare
from tests.cluster.policies.test_cel_differential import CRASH, EXPRESSIONS
from tests.cluster.policies.test_policy_forms import takes
from tests.vapcheck.engine.policy_forms import odd_forms, refusals
from tests.vapcheck.minors.asked import RECORDED, every_answer
from vapcheck import Kinds
from vapcheck.server.minors import MINORS

_WORDS_OF_FORMATS = ("validation-6", "validation-10")
"""Expressions that show the message of a named format, whose words 1.35 changed; ours are the newest's."""
_SINCE = "1.35"


@pytest.fixture(scope="module", params=MINORS)
def minor(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture(scope="module")
def plane(minor: str) -> Iterator[ControlPlane]:
    with bare_server(minor, lambda step: print(step, flush=True)) as found:
        yield found


def test_the_server_says_what_is_recorded(minor: str, plane: ControlPlane) -> None:
    assert every_answer(Server(plane.kubeconfig)) == json.loads(RECORDED.read_text())[minor]


def test_expressions(minor: str, plane: ControlPlane) -> None:
    server = CelServer(Server(plane.kubeconfig))
    outcomes = server.outcomes(EXPRESSIONS)
    server.remove()
    wrong = []
    for number, expression in enumerate(EXPRESSIONS):
        ours, theirs = engine_outcome(number, expression, minor), outcomes[expression.name]
        said_alike = theirs.kind == "refused" or ours.text == theirs.text or theirs.text.startswith(CRASH)
        if ours.kind != theirs.kind or not said_alike:
            wrong.append(expression.name)
    assert wrong == ([] if minor >= _SINCE else list(_WORDS_OF_FORMATS))


def test_forms_of_policies(plane: ControlPlane) -> None:
    server = Server(plane.kubeconfig)
    assert [name for name, body in odd_forms() if takes(server, body) is bool(refusals(body))] == []


def test_what_admission_sees(minor: str, plane: ControlPlane) -> None:
    with recording(plane) as recorder:
        served = [case for case in CASES if recorder.api.resource(case.body["apiVersion"], case.body["kind"])]
        assert len(served) > 30
        for case in served:
            compare(recorder, case.body, Kinds.builtin(minor))
