"""What counts as renamed, and how values are worded."""

from __future__ import annotations

import pytest

from gpupool.environment.plan.capacity import parse_window
from gpupool.environment.plan.changes import wording
from gpupool.environment.plan.changes.pools import pool_changes
from gpupool.environment.plan.changes.tenants import tenant_changes
from tests.environment_files import plan_of
from tests.review.report.plans import EKS, Data, Edit, edited


def pools(edit: Edit, base: Data = EKS) -> list[tuple[str, str, str | None]]:
    changes = pool_changes(plan_of(base), plan_of(edited(base, edit)))
    return [(each.name, each.change, each.renamed_from) for each in changes]


def renamed(*names: str) -> Edit:
    """The MIG pool under other names, once for each."""

    def edit(data: Data) -> None:
        pool = data["pools"].pop(1)
        data["pools"] += [{**pool, "name": name} for name in names]

    return edit


def test_a_pool_under_another_name() -> None:
    assert pools(renamed("other")) == [("shared", "unchanged", None), ("other", "renamed", "parted")]


def test_where_two_could_be_meant_none_is() -> None:
    found = pools(renamed("one", "two"))
    assert [change for _, change, _ in found] == ["unchanged", "added", "added", "removed"]
    both = edited(EKS, renamed("one", "two"))
    back = pools(lambda data: (data["pools"].pop(), data["pools"][1].update(name="parted")), both)
    assert [change for _, change, _ in back] == ["unchanged", "added", "removed", "removed"]


def test_another_name_and_another_size_is_another_pool() -> None:
    def edit(data: Data) -> None:
        data["pools"][1]["name"] = "other"
        data["pools"][1]["nodes"]["max"] = 5

    assert [change for _, change, _ in pools(edit)] == ["unchanged", "added", "removed"]


def test_a_taint_of_ones_own_does_not_hide_a_rename() -> None:
    base = edited(EKS, lambda data: data["pools"][1].update(taints=[{"key": "gpu", "value": "mig"}]))
    assert pools(renamed("other"), base)[1] == ("other", "renamed", "parted")


def test_a_tenant_is_its_namespace() -> None:
    def edit(data: Data) -> None:
        data["tenants"][0]["name"] = "b"

    (change,) = tenant_changes(plan_of(EKS), plan_of(edited(EKS, edit)))
    assert (change.name, change.change, change.renamed_from) == ("b", "renamed", "a")


def test_ids_projects_and_their_budgets_are_settings_of_the_tenant() -> None:
    uuid = "11111111-1111-1111-1111-111111111111"

    def edit(data: Data) -> None:
        budget = {"usd": 5, "overrunBy": 0.5}
        data["tenants"][0].update(id=uuid, projects=["x", {"name": "y", "id": uuid, "budget": budget}])

    (change,) = tenant_changes(plan_of(EKS), plan_of(edited(EKS, edit)))
    assert change.change == "changed"
    assert [(field.name, field.before, field.after) for field in change.fields] == [
        ("id", None, uuid),
        ("projects", None, "x, y"),
        ("projects.y.id", None, uuid),
        ("projects.y.budget", None, "$5 a month (onExhausted: wait)"),
        ("projects.y.budget.alertAt", None, "0.8, 1"),
        ("projects.y.budget.overrunBy", None, "0.5"),
    ]


def test_what_an_order_means_nothing_to() -> None:
    def edit(data: Data) -> None:
        data["pools"][1]["sharing"]["layout"] = {"2g.20gb": 1, "3g.40gb": 1}
        data["pools"][0]["nodes"]["zones"] = ["us-east-1b", "us-east-1a"]

    def other(data: Data) -> None:
        data["pools"][1]["sharing"]["layout"] = {"3g.40gb": 1, "2g.20gb": 1}
        data["pools"][0]["nodes"]["zones"] = ["us-east-1a", "us-east-1b"]

    assert {change for _, change, _ in pools(other, edited(EKS, edit))} == {"unchanged"}


@pytest.mark.parametrize(
    ("amount", "said"),
    [
        (0, "$0"),
        (0.5, "$0.50"),
        (0.004, "$0.004"),
        (0.0625, "$0.0625"),
        (1e-9, "$0.000001"),
        (12, "$12"),
        (99.99, "$99.99"),
        (1234.56, "$1,235"),
        (1e6, "$1,000,000"),
    ],
)
def test_money(amount: float, said: str) -> None:
    assert wording.usd(amount) == said


@pytest.mark.parametrize(
    "text",
    ["Sat 02:00-06:00 UTC", "daily 01:00-03:00 UTC", "Sat,Sun 22:00-02:00 UTC", "Mon,Thu 00:00-00:30 UTC"],
)
def test_windows_are_as_people_write_them(text: str) -> None:
    assert wording.window(parse_window(text)) == text
