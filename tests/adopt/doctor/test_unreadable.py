"""No check ends the others: not by a missing right, a silent server, nor by a fault of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gpupool.adopt.doctor import checks
from gpupool.adopt.doctor.checks import CHECKS, Registered
from gpupool.adopt.doctor.model import Diagnosis, DoctorInput, result
from gpupool.adopt.doctor.reasons import Reason
from tests.adopt.doctor.fake_api import Asked, FakeApi
from tests.adopt.doctor.files import EKS, HOMELAB

NAMES = [row.name for row in CHECKS]
_LOUD = (Reason.FORBIDDEN, Reason.SERVER_SILENT, Reason.NOT_CHECKED_CLUSTER)


def of(diagnosis: Diagnosis, check: str) -> list[Reason]:
    return [row.reason for row in diagnosis.results if row.check == check]


@pytest.mark.parametrize("text", [EKS, HOMELAB], ids=["eks", "homelab"])
def test_an_account_without_any_right(diagnosed: Any, text: str) -> None:
    """Its core case: a chart of ours, and an account that may not do anything."""
    found = diagnosed(text, FakeApi(refuses=lambda asked: asked[0] in ("get", "list")))
    assert {row.check for row in found.results} == {"file", "context", *NAMES}
    assert Reason.BROKEN not in {row.reason for row in found.results}
    assert of(found, "workloads") == of(found, "claims") == [Reason.FORBIDDEN]
    assert not found.ready
    granted = {name for role in found.grant[:1] for rule in role["rules"] for name in rule["resources"]}
    assert {"rolebindings", "clusterroles", "resourceslices", "pods", "nodes"} <= granted
    reads = [rule for rule in found.grant[0]["rules"] if "resourceslices" in rule["resources"]]
    assert [rule["verbs"] for rule in reads] == [["list"]]
    skipped = {row.subject for row in found.results if row.reason is Reason.RIGHTS_TO_CHECK}
    assert {"tenants", "claims"} <= skipped


def _requests() -> Iterator[Asked]:
    """Everything that the checks ask of a server that refuses nothing."""
    yield from (("list", kind) for kind in ("ClusterPolicy", "Pod", "Namespace", "Node", "ResourceSlice"))
    yield from (("list", kind) for kind in ("ClusterRole", "Role", "RoleBinding", "ClusterRoleBinding"))
    yield from (("list", kind) for kind in ("EC2NodeClass", "Deployment"))
    yield from (("get", kind) for kind in ("Secret", "Namespace", "Node", "/version", "/apis"))
    yield from (("create", kind) for kind in ("SelfSubjectAccessReview",))
    yield from (("discover", kind) for kind in ("NodePool", "ClusterPolicy"))


def test_each_right_is_among_those_that_are_tried(diagnosed: Any) -> None:
    asked = set[Asked]()
    for text in (EKS, HOMELAB):
        api = FakeApi()
        diagnosed(text, api)
        asked |= {one for one in api.asked if one[0] != "discover"}
    assert asked <= {*_requests(), ("create", "SelfSubjectReview")}


@pytest.mark.parametrize("missing", list(_requests()), ids="-".join)
def test_a_single_right_that_is_missing_costs_no_other_check(diagnosed: Any, missing: Asked) -> None:
    whole = {text: diagnosed(text, FakeApi()) for text in (EKS, HOMELAB)}
    for text, all_of_it in whole.items():
        found = diagnosed(text, FakeApi(refuses=lambda asked: asked == missing))
        reasons = {row.reason for row in found.results}
        assert {row.check for row in found.results} == {"file", "context", *NAMES}
        assert not reasons & {Reason.BROKEN, Reason.SERVER_SILENT}
        for name in NAMES:
            assert Reason.FORBIDDEN in of(found, name) or of(found, name) == of(all_of_it, name), name


@pytest.mark.parametrize("silent", list(_requests()), ids="-".join)
def test_a_server_that_falls_silent_is_waited_for_once(diagnosed: Any, silent: Asked) -> None:
    api = FakeApi(silent=lambda asked: asked == silent)
    found = diagnosed(EKS, api)
    assert {row.check for row in found.results} == {"file", "context", *NAMES}
    assert Reason.BROKEN not in {row.reason for row in found.results}
    limit = 16 if silent[0] == "create" else 1  # access reviews are sent together
    assert api.asked.count(silent) <= limit


def test_a_fault_of_a_check_is_a_row_without_what_it_was_about(
    diagnosed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def faulty(inputs: DoctorInput) -> Iterator[Any]:
        yield result("first", Reason.FILE_VALID)
        raise TypeError("the value hunter2")

    rows = (Registered("faulty", checks.Need.CLUSTER, faulty), *CHECKS)
    monkeypatch.setattr(checks, "CHECKS", rows)
    found = diagnosed(EKS, FakeApi())
    assert of(found, "faulty") == [Reason.FILE_VALID, Reason.BROKEN]
    assert of(found, "secrets") != []
    said = next(row for row in found.results if row.reason is Reason.BROKEN)
    assert "TypeError, test_unreadable.py:" in said.remediation
    assert "hunter2" not in str(found.finding_report())
