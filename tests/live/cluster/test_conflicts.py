"""A write that another writer came before is made again, and nothing else is."""

from __future__ import annotations

import pytest

from gpupool.live.cluster.conflicts import until_no_conflict
from gpupool.live.cluster.kube_api import ApiError


def refusing(statuses: list[int]) -> list[int]:
    """The calls that a write gets which is refused with these, one after the other, and then taken."""
    calls: list[int] = []

    def write() -> None:
        calls.append(len(calls))
        if len(calls) <= len(statuses):
            raise ApiError(statuses[len(calls) - 1], "Refused", "no")

    try:
        until_no_conflict(write)
    except ApiError as error:
        calls.append(-error.status)
    return calls


@pytest.mark.parametrize(
    ("statuses", "calls"),
    [
        ([], [0]),
        ([409, 409], [0, 1, 2]),
        ([409, 422], [0, 1, -422]),
        ([403], [0, -403]),
        ([409] * 5, [0, 1, 2, 3, 4, -409]),
    ],
)
def test_only_a_conflict_is_tried_again_and_not_for_ever(statuses: list[int], calls: list[int]) -> None:
    assert refusing(statuses) == calls
