"""Several processes find what one finds, in the same order and with the same counts."""

from __future__ import annotations

import os
from copy import deepcopy
from typing import Any

import pytest

from vapcheck import Kinds, from_bodies
from vapcheck.judging.judge import Judge
from vapcheck.judging.many import judge_many, processes_for
from vapcheck.judging.request import User
from vapcheck.policy.policy_set import read_policies

POLICIES: list[dict[str, Any]] = [
    {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "numbered"},
        "spec": {
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["configmaps"],
                    }
                ]
            },
            "variables": [{"name": "number", "expression": "quantity(object.data.number)"}],
            "validations": [{"expression": "variables.number.isLessThan(quantity('40'))"}],
        },
    },
    {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "numbered"},
        "spec": {"policyName": "numbered", "validationActions": ["Deny"]},
    },
]
OBJECTS = [
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"c{n}"}, "data": {"number": str(n)}}
    for n in range(101)
]


@pytest.mark.parametrize("processes", [2, 3, 7])
def test_the_same_as_one_process(processes: int) -> None:
    documents = from_bodies(OBJECTS, "objects")
    found = read_policies(from_bodies(POLICIES, "policies"))
    judges = [Judge(found, [], Kinds.builtin()) for _ in range(2)]
    alone, together = (
        judge_many(judge, documents, operation="CREATE", user=User(), processes=count)
        for judge, count in zip(judges, (1, processes), strict=True)
    )
    assert [str(finding.object) for finding in together] == [f"ConfigMap c{n}" for n in range(40, 101)]
    assert together == alone
    assert judges[1].tally.evaluations == judges[0].tally.evaluations == 101
    assert judges[1].tally.matched == judges[0].tally.matched == {"numbered": 101}


def test_what_passed_for_want_of_a_parameter_is_known_from_every_process() -> None:
    policy, binding = deepcopy(POLICIES)
    policy["spec"]["paramKind"] = {"apiVersion": "v1", "kind": "ConfigMap"}
    binding["spec"]["paramRef"] = {"name": "bounds", "parameterNotFoundAction": "Allow"}
    judge = Judge(read_policies(from_bodies([policy, binding], "policies")), [], Kinds.builtin())
    others = [{**OBJECTS[0], "kind": "Secret", "data": {}} for _ in range(60)]
    documents = from_bodies([*others, *OBJECTS[60:]], "objects")  # so that the first share has none
    assert not judge_many(judge, documents, operation="CREATE", user=User(), processes=2)
    assert judge.tally.unparameterised == {"numbered": "numbered"}


@pytest.mark.parametrize(
    ("judgements", "processors", "processes"),
    [(0, 8, 1), (24_999, 8, 1), (30_000, 1, 1), (30_000, 2, 2), (30_000, 64, 2), (300_000, 8, 8)],
)
def test_more_processors_do_not_make_more_processes(judgements: int, processors: int, processes: int) -> None:
    """Each process has memory of its own: that of 3,000 objects by 10 policies is the same on any machine."""
    assert processes_for(judgements, processors) == processes


def test_the_process_that_asks_judges_a_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would only wait, at the price of one more process."""
    forks, fork = list[int](), os.fork

    def counted() -> int:
        forks.append(fork())
        return forks[-1]

    monkeypatch.setattr(os, "fork", counted)
    judge = Judge(read_policies(from_bodies(POLICIES, "policies")), [], Kinds.builtin())
    judge_many(judge, from_bodies(OBJECTS, "objects"), operation="CREATE", user=User(), processes=2)
    assert len(forks) == 1
