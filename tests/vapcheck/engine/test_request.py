"""What policies see of a request, as a real API server was seen to give it."""

from typing import Any

import pytest

from vapcheck import Kinds
from vapcheck.judging.request import Request


@pytest.mark.parametrize(
    ("operation", "dry_run", "options"),
    [
        ("CREATE", False, {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"}),
        ("UPDATE", False, {"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1"}),
        ("DELETE", True, {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "dryRun": ["All"]}),
        ("CONNECT", False, None),
    ],
)
def test_options_are_those_of_the_operation(operation: str, dry_run: bool, options: Any) -> None:
    pods = Kinds.builtin().resource("v1", "Pod")
    assert pods is not None
    request = Request(operation, pods, "a", "team", {}, None, dry_run=dry_run)
    assert request.as_cel()["options"] == options
