"""Figures of the policy engine: the whole command, its memory, evaluation alone, growth.

Each function yields (name, value) pairs; they are registered in `figures`. Other tools are measured elsewhere
(`policy_rivals`), because they take minutes to build.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from gpupool.cli.findings.outputs import FindingFormat
from tests.perf import policy_bundle, policy_files
from tests.perf.measure import run
from vapcheck import Kinds, read_files
from vapcheck.cel.program import Scope
from vapcheck.judging.evaluation import Evaluation
from vapcheck.judging.matching import Matcher
from vapcheck.judging.request import Request
from vapcheck.policy.compiled_policy import CompiledPolicy
from vapcheck.policy.policy_set import read_policies
from vapcheck.server.admission_view import as_admitted
from vapcheck.server.kinds import resource_of

GPUPOOL = Path(sys.executable).with_name("gpupool")
OBJECTS, POLICIES = 3000, 10
TIMES = 5
DENIED = 1
"""Exit status of `policy check` when something is denied, as one object in nineteen is."""
Figure = tuple[str, float]


def check(bundle: Path, policies: Path, folder: Path, times: int = TIMES) -> float:
    """Median seconds of `policy check` from process start."""
    command = _command(bundle, policies)
    return statistics.median(run(command, folder, accepted=(DENIED,))[0] for _ in range(times))


def peak(bundle: Path, policies: Path, folder: Path) -> float:
    """Highest MiB of `policy check`, all its processes together."""
    command = _command(bundle, policies)
    return max(run(command, folder, accepted=(DENIED,), tree=True)[1] for _ in range(2))


def _command(bundle: Path, policies: Path) -> list[str | Path]:
    return [GPUPOOL, "policy", "check", bundle, "--policies", policies]


def whole_command(folder: Path) -> Iterator[Figure]:
    """3,000 objects by 10 policies, ten times the objects, five times the policies: in one go, so that all of
    them meet the same machine."""
    bundle = policy_bundle.write(folder / "bundle", OBJECTS)
    large = policy_bundle.write(folder / "large", OBJECTS * 10)
    ten = policy_files.write(folder / "ten", POLICIES)
    fifty = policy_files.write(folder / "fifty", POLICIES * 5)
    seconds = check(bundle, ten, folder)
    yield "policy-check", seconds
    yield "policy-check-fifty", check(bundle, fifty, folder) / seconds
    yield "policy-check-linear", check(large, ten, folder, times=1) / (10 * seconds)
    yield "policy-check-memory", peak(bundle, ten, folder)


def denials(folder: Path) -> Iterator[Figure]:
    """628 objects by 60 policies that deny most of them, 14,310 times: the slowest and the largest output."""
    bundle = policy_bundle.write(folder / "bundle", 628)
    command = _command(bundle, policy_files.write_denying(folder / "policies", 60))
    runs = [
        run([*command, "-o", output], folder, accepted=(DENIED,), tree=True)
        for output in get_args(FindingFormat)
    ]
    yield "policy-denials", max(seconds for seconds, _ in runs)
    yield "policy-denials-memory", max(peak for _, peak in runs)


def evaluation(folder: Path) -> Iterator[Figure]:
    """Expressions alone, in microseconds: objects are read, admitted and matched beforehand. Scopes are new
    for each time, so that no value of a variable is there already."""
    applications = list(_applications(folder))
    expressions = sum(
        len(compiled.variables) + len(compiled.validations)
        for policies, _ in applications
        for compiled in policies
    )
    taken = []
    for _ in range(TIMES):
        prepared = [(policies, Scope(dict(values))) for policies, values in applications]
        started = time.perf_counter()
        for policies, scope in prepared:
            for compiled in policies:
                Evaluation(compiled, scope).verdict()
        taken.append(time.perf_counter() - started)
    yield "policy-expression", statistics.median(taken) / expressions * 1e6


def _applications(folder: Path) -> Iterator[tuple[list[CompiledPolicy], dict[str, Any]]]:
    """Each object's values with the policies that match it."""
    documents, _ = read_files([policy_bundle.write(folder / "bundle", OBJECTS)])
    rules, _ = read_files([policy_files.write(folder / "policies", POLICIES)])
    kinds = Kinds.builtin()
    matcher = Matcher(kinds, {})
    found = [bound.compiled for bound in read_policies(rules).policies]
    for document in documents:
        resource = resource_of(document.body, kinds)
        body = as_admitted(document.body, kinds, operation="CREATE")
        meta = body["metadata"]
        request = Request("CREATE", resource, meta["name"], meta.get("namespace", ""), body, None)
        matching = [compiled for compiled in found if matcher.match(compiled.policy.match, request)]
        values = {
            "object": body,
            "oldObject": None,
            "namespaceObject": None,
            "request": request.as_cel(),
        }
        yield matching, values
