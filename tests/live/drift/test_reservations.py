"""What the file says of reservations, against what Karpenter finds of them."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.live.drift.drift import Drift
from tests.environment.plan.test_reserved import environment
from tests.environment_files import text_of
from tests.live.drift.fake_cluster import Cluster

BLOCK = {"id": "cr-0a", "count": 1, "until": "2027-01-31T11:30Z"}
OPEN = {"id": "cr-0b", "count": 1}


def examined(reserved: list[dict[str, Any]], *live: dict[str, str], looked: bool = True) -> list[Drift]:
    cluster = Cluster(text_of(environment(reserved)))
    status: dict[str, Any] = {"capacityReservations": list(live)}
    if looked:
        status["conditions"] = [{"type": "Ready", "status": "True"}]
    cluster.get("EC2NodeClass", "pool")["status"] = status
    return [drift for drift in cluster.examine() if drift.code.startswith("reservation")]


@pytest.mark.parametrize(
    ("reserved", "live", "expected"),
    [
        ([BLOCK], [{"id": "cr-0a", "endTime": "2027-01-31T11:30:00Z"}], []),
        ([BLOCK], [{"id": "cr-0a", "endTime": "2027-02-01T11:30:00Z"}], []),
        ([OPEN], [{"id": "cr-0b"}], []),
        ([{"tags": {"team": "ml"}, "count": 1}], [{"id": "cr-9"}], []),
        ([BLOCK], [{"id": "cr-9"}], [("reservation-missing", "drift")]),
        ([{"tags": {"team": "ml"}, "count": 1}], [], [("reservation-missing", "drift")]),
        ([BLOCK], [{"id": "cr-0a", "endTime": "2027-01-31T11:00:00Z"}], [("reservation-ends", "drift")]),
        ([OPEN], [{"id": "cr-0b", "endTime": "2027-01-31T11:30:00Z"}], [("reservation-ends", "drift")]),
        ([{**BLOCK, "until": "2020-01-31T11:30Z"}], [], [("reservation-missing", "warning")]),
    ],
)
def test_each_is_there_for_as_long_as_the_file_says(
    reserved: list[dict[str, Any]], live: list[dict[str, str]], expected: list[tuple[str, str]]
) -> None:
    drifts = examined(reserved, *live)
    assert [(drift.code, drift.category.value) for drift in drifts] == expected
    assert all(drift.remediation for drift in drifts)


def test_before_karpenter_has_looked_nothing_is_known() -> None:
    assert examined([BLOCK], looked=False) == []
