"""What API servers of several minors say of the cases: asks them, and writes recorded.json.

`python -m tests.vapcheck.minors.asked` asks a server of each known minor; needs the programs, minutes the
first time. The engine is no part of it (see test_minors.py).
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from gpupool.local.bare_server import bare_server
from tests.cluster.policies.server import Answer, Server
from vapcheck.server.minors import MINORS

Object = dict[str, Any]
HERE = Path(__file__).parent
CASES: Object = yaml.safe_load((HERE / "cases.yaml").read_text())
RECORDED = HERE / "recorded.json"
GROUP = "admissionregistration.k8s.io"
PROBE = "probe"
"""The name of the pods that every policy of a decision denies."""
_IN_FORCE_SECONDS = 60.0
_UNKNOWN = re.compile(r'unknown field "([^"]+)"')
_DENIED = re.compile(r"denied request: (.*)", re.DOTALL)


def policy(name: str, variable: str, validation: str = "true", version: str = "v1") -> Object:
    """A policy on pods."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "variables": [{"name": "v", "expression": variable}],
        "validations": [
            {"expression": validation},
            {"expression": f"object.metadata.name != '{PROBE}-{name}'"},
        ],
    }
    meta = {"name": name}
    return {
        "apiVersion": f"{GROUP}/{version}",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": meta,
        "spec": spec,
    }


def binding(name: str) -> Object:
    """What puts a policy in force for pods with its label."""
    spec = {
        "policyName": name,
        "validationActions": ["Deny"],
        "matchResources": {"objectSelector": {"matchLabels": {"case": name}}},
    }
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": spec,
    }


def pod(case: str, name: str, spec: Object) -> Object:
    """A pod that the policy of a case is about."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"case": case}},
        "spec": spec,
    }


def at(body: Any, path: str) -> Any:
    """The value at a path such as spec.containers.0.name; None where there is none."""
    for part in path.split("."):
        try:
            body = body[int(part) if isinstance(body, list) else part]
        except (KeyError, IndexError, TypeError):
            return None
    return body


def every_answer(server: Server) -> Object:
    """What a server says of every case."""
    return {
        "expressions": {
            name: _is_taken(server.ask("CREATE", policy(name, expression)))
            for name, expression in CASES["expressions"].items()
        },
        "versions": {
            version: server.api.resource(f"{GROUP}/{version}", "ValidatingAdmissionPolicy") is not None
            for version in CASES["versions"]
        },
        "objects": {name: _of_object(server, case) for name, case in CASES["objects"].items()},
        "decisions": {name: _of_decision(server, name, case) for name, case in CASES["decisions"].items()},
    }


def _is_taken(answer: Answer) -> bool:
    assert answer.status in (201, 422), answer
    return answer.status == 201


def _of_object(server: Server, case: Object) -> Object:
    body = case["body"]
    if server.api.resource(body["apiVersion"], body["kind"]) is None:
        return {"kind": False}
    unknown = sorted(_UNKNOWN.findall(server.ask("CREATE", body, strict=True).message))
    if "kept" not in case:
        return {"unknown": unknown}
    answer = server.ask("CREATE", body)
    assert answer.status == 201, answer
    return {"unknown": unknown, "kept": at(answer.body, case["kept"])}


def _of_decision(server: Server, name: str, case: Object) -> Object:
    made = [policy(name, "1", case["validation"]), binding(name)]
    for body in made:
        assert server.ask("CREATE", body, dry_run=False).status == 201
    spec = next(iter(case["pods"].values()))
    deadline = time.monotonic() + _IN_FORCE_SECONDS
    while not server.ask("CREATE", pod(name, f"{PROBE}-{name}", spec)).message:
        assert time.monotonic() < deadline, f"{name} does not come in force"
        time.sleep(0.2)
    found = {key: _denial(server.ask("CREATE", pod(name, key, spec))) for key, spec in case["pods"].items()}
    for body in made:
        server.ask("DELETE", body, dry_run=False)
    return found


def _denial(answer: Answer) -> str | None:
    if answer.status == 201:
        return None
    denied = _DENIED.search(answer.message)
    assert denied, answer
    return denied[1]


def answers_of(minors: Iterator[str] | tuple[str, ...], report: Callable[[str], None]) -> dict[str, Object]:
    """What a server of each minor says."""
    found = {}
    for minor in minors:
        with bare_server(minor, report) as plane:
            found[minor] = every_answer(Server(plane.kubeconfig))
    return found


if __name__ == "__main__":
    asked = answers_of(MINORS, lambda step: print(step, flush=True))
    RECORDED.write_text(json.dumps(asked, indent=1, sort_keys=True) + "\n")
