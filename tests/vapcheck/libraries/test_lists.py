"""List functions, the authorizer's chain, and the declarations as a whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vapcheck.cel.errors import CelError, NoSuchOverload
from vapcheck.cel.libraries import OVERLOADS
from vapcheck.cel.libraries.authorization import (
    Attributes,
    AuthorizationError,
    Authorizer,
    check,
    path,
    resource,
    service_account,
)
from vapcheck.cel.libraries.lists import (
    distinct,
    flatten,
    index_of,
    is_sorted,
    last_index_of,
    maximum,
    minimum,
    numbers_up_to,
    slice_of,
    sort,
)
from vapcheck.cel.quantity import parse_quantity
from vapcheck.cel.values import Duration, Uint

CALLS = {overload.id: overload for overload in OVERLOADS}


@given(st.lists(st.integers(-(2**60), 2**60), min_size=1, max_size=8))
def test_numbers(numbers: list[int]) -> None:
    assert minimum(numbers) == min(numbers)
    assert maximum(numbers) == max(numbers)
    assert is_sorted(sort(numbers))
    assert CALLS["list_int_sum_int"].call(numbers[:7]) == sum(numbers[:7])
    assert distinct(numbers) == list(dict.fromkeys(numbers))
    assert numbers[index_of(numbers, numbers[-1])] == numbers[-1]


def test_sums_keep_their_kind_and_their_limits() -> None:
    assert isinstance(CALLS["list_uint_sum_uint"].call([Uint(1), Uint(2)]), Uint)
    assert CALLS["list_double_sum_double"].call([]) == 0.0
    assert CALLS["list_duration_sum_duration"].call([Duration(1), Duration(2)]) == Duration(3)
    with pytest.raises(CelError, match=r"^integer overflow$"):
        CALLS["list_int_sum_int"].call([2**63 - 1, 1])
    with pytest.raises(CelError, match="unsigned integer overflow"):
        CALLS["list_uint_sum_uint"].call([Uint(2**64 - 1), Uint(1)])
    with pytest.raises(NoSuchOverload):
        CALLS["list_int_sum_int"].call([1.5])


def test_mixed_and_empty_lists() -> None:
    assert is_sorted([3, "a", True])
    assert index_of([True, 1, 1.0], 1) == 1
    assert last_index_of([1, 1.0, True], 1) == 1
    assert index_of([parse_quantity("1")], parse_quantity("1000m")) == 0
    with pytest.raises(CelError, match="min called on empty list"):
        minimum([])
    with pytest.raises(NoSuchOverload):
        maximum([1, None])


def test_the_list_extension() -> None:
    assert slice_of([1, 2, 3], 1, 3) == [2, 3]
    with pytest.raises(CelError, match=r"cannot slice\(0, 9\), list is length 3"):
        slice_of([1, 2, 3], 0, 9)
    assert flatten([[1, [2]], [3]]) == [1, [2], 3]
    assert flatten([[1, [2]], [3]], 2) == [1, 2, 3]
    with pytest.raises(CelError, match="level must be non-negative"):
        flatten([[1]], -1)
    with pytest.raises(CelError, match="list elements must have the same type"):
        sort([1, "a"])
    with pytest.raises(CelError, match="cost limit"):
        numbers_up_to(10**15)


class Recorder:
    """Allows one user everything, remembers what it was asked, and fails for the verb `fail`."""

    def __init__(self) -> None:
        self.asked: list[Attributes] = []

    def decide(self, attributes: Attributes) -> tuple[bool, str]:
        self.asked.append(attributes)
        if attributes.verb == "fail":
            raise AuthorizationError("no answer")
        return attributes.user == "ada", "because"


def test_the_authorizers_chain_gathers_what_is_asked() -> None:
    recorder = Recorder()
    ada = Authorizer(recorder, Attributes("ada", ("dev",)))
    asked = resource(CALLS["authorizer_group"].call(ada, "apps"), "deployments")
    for id, text in (
        ("resourcecheck_subresource", "scale"),
        ("resourcecheck_namespace", "ns"),
        ("resourcecheck_name", "web"),
        ("authorizer_fieldselector", "a=b"),
        ("authorizer_labelselector", "c=d"),
    ):
        asked = CALLS[id].call(asked, text)
    decision = check(asked, "update")
    assert (decision.allowed, decision.reason, decision.errored) == (True, "because", False)
    assert recorder.asked == [
        Attributes("ada", ("dev",), "update", "", "apps", "deployments", "scale", "ns", "web", "a=b", "c=d")
    ]


def test_the_authorizer_of_a_service_account() -> None:
    recorder = Recorder()
    account = service_account(Authorizer(recorder, Attributes("ada")), "ns", "bot")
    assert not check(path(account, "/healthz"), "get").allowed
    asked = recorder.asked[0]
    assert asked.user == "system:serviceaccount:ns:bot"
    assert asked.groups == ("system:serviceaccounts", "system:serviceaccounts:ns")
    failed = check(path(account, "/healthz"), "fail")
    assert (failed.errored, failed.error, failed.allowed) == (True, "no answer", False)
    with pytest.raises(CelError, match="Invalid service account name"):
        service_account(account, "ns", "Bad!")
    with pytest.raises(CelError, match="Invalid service account namespace"):
        service_account(account, "a.b", "bot")
    for wrong, call in (("path", path), ("resource", resource)):
        with pytest.raises(CelError, match=f"{wrong} must not be empty"):
            call(account, " ")


def test_every_overload_is_declared_once() -> None:
    ids = [overload.id for overload in OVERLOADS]
    assert len(ids) == len(set(ids))
    signatures = [(row.function, row.member, row.parameters) for row in OVERLOADS]
    assert len(signatures) == len(set(signatures))


@pytest.mark.parametrize(
    ("id", "arguments", "units"),
    [
        ("string_to_url", ["/" + "x" * 24], 3),
        ("string_find_string", ["x" * 19, "y" * 8], 2 * 2),
        ("list_int_sum_int", [[1, 2, 3]], 3),
        ("list_a_index_of_int", [["x" * 25, 1], 1], 2 + 1),
        ("ip_is_canonical", ["127.0.0.1"], 2),
        ("string_to_quantity", ["500m"], 1),
        ("resourcecheck_check", [None, "get"], 350_000),
        ("authorizer_fieldselector", [None, "a=b,c"], 10 + 1 + 3 * 50),
        ("list_distinct", [["a", "b", "c"]], int(9 * 2.1) + 11),
        ("list_flatten", [[[1], [2]]], 2 + 11),
        ("list_reverse", [[1, 2]], 2 + 11),
    ],
)
def test_costs(id: str, arguments: list[object], units: int) -> None:
    """Worked out by hand from apiserver 0.36 pkg/cel/library/cost.go and cel-go 0.26 ext/lists.go."""
    overload = CALLS[id]
    assert overload.cost is not None
    result = overload.call(*arguments) if arguments[0] is not None else None
    assert overload.cost(arguments, result) == units


def test_costs_of_networks_and_formats() -> None:
    cidr = CALLS["string_to_cidr"].call("10.0.0.0/8")
    contains = CALLS["cidr_contains_cidr_string"].cost
    assert contains is not None
    assert contains([cidr, "10.1.0.0/16"], True) == 1 + 2 + 1 + 1
    label = CALLS["format.dns1123Label"].call()
    validation = CALLS["format-validate"].cost
    assert validation is not None
    assert validation([label, "x" * 9], None) == 1 * 8
