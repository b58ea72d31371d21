"""Running and printing `policy test`: a table of policies, then every failure with its place."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpupool.cli.findings.json import finding_json
from gpupool.cli.output import Format, print_json, print_table
from gpupool.cli.progress import progress
from gpupool.findings import UsageError, relative
from gpupool.findings.of_policy import policy_finding
from gpupool.findings.terminal import in_sentence
from gpupool.policy.targets import kinds_in, policies_folder
from vapcheck import Kinds, PolicyFinding, other_minor
from vapcheck.fixtures.suites import Failure, Suite, kinds_of, read_suites
from vapcheck.fixtures.suites import run as run_fixtures

if TYPE_CHECKING:
    from vapcheck.fixtures.mutation import Outcome

Notes = tuple[PolicyFinding, ...]


@dataclass(frozen=True, slots=True)
class Tested:
    """One policy with the results of its fixtures."""

    suite: Suite
    failures: tuple[Failure, ...]
    mutation: Outcome | None

    @property
    def passed(self) -> bool:
        """Whether every fixture had its expected verdict, and the fixtures noticed every mutant."""
        return not (self.failures or (self.mutation and self.mutation.unnoticed))


def run(folder: Path | None, name: str, mutate: bool, format: Format, kubernetes: str | None = None) -> bool:
    """Test the policies of `folder` whose names contain `name`, and print the outcome.

    Returns whether all of them passed. Raises UsageError if there is nothing to test.
    """
    folder = folder or policies_folder()
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder; name a folder of policies")
    suites, problems = read_suites(folder)
    if not suites and not problems:
        raise UsageError(f"{folder}: no ValidatingAdmissionPolicy in its *.yaml files")
    chosen = [suite for suite in suites if name in suite.name]
    if not chosen and name:
        known = ", ".join(suite.name for suite in suites)
        raise UsageError(f"no policy in {folder} has {name!r} in its name; policies: {known}")
    stray = () if name else tuple(problems)
    kinds = kinds_in(kubernetes)
    notes = tuple(other_minor(kinds))
    with progress("policy test") as notify:
        tested = [_test(suite, kinds, mutate, notify) for suite in chosen]
    if format == "json":
        print_json(_as_json(folder, tested, stray, notes))
    else:
        _print(tested, stray, mutate, notes)
    return all(one.passed for one in tested) and not stray


def _test(suite: Suite, kinds: Kinds, mutate: bool, notify: Any) -> Tested:
    notify(suite.name)
    own = kinds_of(suite, kinds)
    failures = tuple(run_fixtures(suite, own))
    if failures or not mutate:
        return Tested(suite, failures, None)
    from vapcheck.fixtures.mutation import judge_fixtures

    outcome = judge_fixtures(suite, own, lambda count: notify(f"{suite.name}, mutant {count}"))
    return Tested(suite, failures, outcome)


def _print(tested: list[Tested], stray: tuple[Failure, ...], mutate: bool, notes: Notes) -> None:
    rows = [_row(one, mutate) for one in tested]
    print_table(_columns(mutate), rows, right=("good", "bad", "mutants", "unnoticed"))
    for one in tested:
        named = in_sentence(one.suite.name)
        for failure in one.failures:
            print(f"\n{named}: {_said(failure)}")
        for mutant in one.mutation.unnoticed if one.mutation else ():
            print(f"\n{named}: {mutant.path}: no fixture detects this change: {in_sentence(mutant.what)}")
            if mutant.expression:
                print(f"  {in_sentence(' '.join(mutant.expression.split()))}")
    for failure in stray:
        print(f"\n{_said(failure)}")
    for note in notes:
        print(f"\n{note.level}: {note.message}")
    print(f"\n{_summary(tested, stray)}")


def _columns(mutate: bool) -> list[str]:
    """The table's columns, in the order of `_row`."""
    return ["policy", "good", "bad", *(["mutants", "unnoticed"] if mutate else []), "result"]


def _row(one: Tested, mutate: bool) -> list[str]:
    good = sum(case.good for case in one.suite.cases)
    mutants = ["-", "-"]
    if one.mutation:
        mutants = [str(one.mutation.tried), str(len(one.mutation.unnoticed))]
    return [
        in_sentence(one.suite.name),
        str(good),
        str(len(one.suite.cases) - good),
        *(mutants if mutate else []),
        "ok" if one.passed else "FAILED",
    ]


def _summary(tested: list[Tested], stray: tuple[Failure, ...]) -> str:
    """`passed: 39 policies, 869 fixtures`."""
    failed = sum(not one.passed for one in tested)
    outcome = f"{failed} failed" if failed else "the fixtures have problems" if stray else "passed"
    policies = f"{len(tested)} polic{'y' if len(tested) == 1 else 'ies'}"
    return f"{outcome}: {policies}, {sum(len(one.suite.cases) for one in tested)} fixtures"


def _said(failure: Failure) -> str:
    named = f"{in_sentence(failure.object)}: " if failure.object else ""
    return f"{in_sentence(relative(failure.place))}: {named}{in_sentence(failure.message)}"


def _as_json(folder: Path, tested: list[Tested], stray: tuple[Failure, ...], notes: Notes) -> dict[str, Any]:
    return {
        "passed": all(one.passed for one in tested) and not stray,
        "folder": relative(str(folder)),
        "policies": [
            {
                "name": one.suite.name,
                "file": relative(one.suite.policy.file),
                "good": sum(case.good for case in one.suite.cases),
                "bad": sum(not case.good for case in one.suite.cases),
                "failures": [_failure(failure) for failure in one.failures],
                "mutants": one.mutation.tried if one.mutation else None,
                "unnoticed": [
                    {"path": mutant.path, "expression": mutant.expression, "mutation": mutant.what}
                    for mutant in (one.mutation.unnoticed if one.mutation else ())
                ],
            }
            for one in tested
        ],
        "failures": [_failure(failure) for failure in stray],
        "notes": [finding_json(policy_finding(note)) for note in notes],
    }


def _failure(failure: Failure) -> dict[str, str]:
    return {"place": relative(failure.place), "object": failure.object, "message": failure.message}
