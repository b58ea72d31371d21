"""The forms that the API server refuses are refused and the others taken, and nothing odd is a crash.

That the server thinks so too is tests/cluster/policies/test_policy_forms.py's to say.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.vapcheck.engine.policy_forms import REFUSED, TAKEN, form, odd_forms, refusals
from vapcheck import check, from_bodies, read_text
from vapcheck.policy.compiled_policy import Compiler
from vapcheck.policy.policy_set import read_policies


@pytest.mark.parametrize(("path", "value"), REFUSED)
def test_refused(path: str, value: Any) -> None:
    findings = refusals(form(path, value))
    place = path.removeprefix("binding ").replace(".0", "[0]").replace("labels.a", "labels[a]")
    assert findings
    assert all(finding.level == "deny" and finding.message for finding in findings)
    told = [finding.path for finding in findings]
    assert any(one.startswith(place) or place.startswith(one) for one in told), told


@pytest.mark.parametrize(("path", "value"), TAKEN)
def test_taken(path: str, value: Any) -> None:
    assert refusals(form(path, value)) == []


def test_nothing_is_a_crash() -> None:
    compiler = Compiler()
    objects = from_bodies([{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}], "f")
    for name, body in odd_forms():
        try:
            check(objects, policies=from_bodies([body], "f"), compiler=compiler)
        except Exception as error:  # whatever it is, it shows the form
            raise AssertionError(name) from error


def test_annotations_that_are_none_have_their_place() -> None:
    text = (
        "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\n"
        "metadata:\n  name: p\n  annotations: hello\nspec: {}\n"
    )
    found = read_policies(read_text(text, "p.yaml")[0]).findings
    (annotations,) = [finding for finding in found if finding.path == "metadata.annotations"]
    assert (annotations.rule, annotations.level) == ("invalid-policy", "deny")
    assert (annotations.file, annotations.line, annotations.column) == ("p.yaml", 5, 3)
    assert annotations.message
