"""Which tests of an exhaustive area a run takes: a share that a seed draws, or all of them.

GPUPOOL_TESTS names the areas that are run whole. `make test` sets it to those that changed files belong to
and those that are named (`python -m tests.sampling COMMIT AREA...`), `make test-all` to `all`. Where it is
not set, as in `pytest PATH`, every test runs. A change that calls for more than MANY areas, such as the work
of weeks that goes in at once, has half of each (`NAME/2`), so that a run ends in its time. The share is the
same in every run. GPUPOOL_SEED=N draws another one; the head of a run prints it.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

Case = TypeVar("Case")


SHARE = 4
"""One in so many tests of a folder is taken, and at least one."""
HALF = "/2"
MANY = 6
"""Areas that are run whole at most because of changed files: with all of them a run takes an hour."""


@dataclass(frozen=True)
class Area:
    """Tests that take long, and the code whose changes call for all of them."""

    code: tuple[str, ...]
    tests: tuple[str, ...] = ()
    """Beginnings of paths of files of which a run takes a share; none where tests draw cases (`drawn`) or
    examples (tests/examples.py)."""
    share: int = SHARE


_AGAINST_THE_SERVER = (
    *("admission_view", "cel_differential", "decoding", "policy_forms"),
    *("semantics", "shipped_policies", "type_check", "yaml_as_kubectl"),
)
"""What the policy engine says, compared case by case with a server of the same release."""
_PLAN = ("gpupool/findings.py", "gpupool/spec/", "gpupool/plan/", "gpupool/rules/", "generators/")
"""What turns the environment file into objects, on which most else rests."""
_LIBRARIES = "requirements"
"""requirements.lock and its like: for areas that test what libraries do as much as what we do."""
_CLUSTER = ("tests/cluster/conftest.py", "tests/cluster/kube.py", "tools/")
"""What every control plane of the tests is made of: for areas with tests that start one."""
AREAS = {
    "drift": Area(
        ("gpupool/drift/", "gpupool/objects/", "gpupool/cluster/", "tests/cluster/drift/"),
        ("tests/cluster/drift/",),
    ),
    "stack": Area(
        (
            "infra/",
            "gpupool/objects/",
            "gpupool/pulumi_plugins/",
            "tests/cluster/pulumi/",
            "tests/unit/infra/",
            _LIBRARIES,
        ),
        (
            "tests/cluster/pulumi/",
            "tests/unit/infra/",
            "tests/cluster/policies/test_gate",
        ),
        share=8,  # each of them is several runs of Pulumi, half a minute and more
    ),
    "pools": Area(
        ("generators/", "gpupool/sharing/", "tests/cluster/pools/"),
        ("tests/cluster/pools/", "tests/cluster/simulated_operator/"),
    ),
    "operator": Area(
        (
            *(*_PLAN, "gpupool/sharing/", "gpupool/catalog/"),
            *("gpupool/local/nvidia_operator/", "tests/cluster/operator/", "tests/environment_"),
        ),
        ("tests/cluster/operator/",),
        share=16,  # what has the controller in it takes a control plane of its own
    ),
    "nvidia": Area(
        (
            *("generators/device_plugin.py", "generators/mig_parted.py", "gpupool/sharing/"),
            *("gpupool/catalog/", "gpupool/local/operator/", "tests/nvidia/"),
            *("tools/device-plugin/", "tools/mig-parted/", "tools/go-nvml/"),
        )
    ),
    "local": Area(("gpupool/local/", "gpupool/programs/"), ("tests/cluster/test_",)),
    "repartition": Area(
        ("gpupool/repartition/", "gpupool/rollback/", "tests/cluster/repartition/"),
        ("tests/cluster/repartition/",),
    ),
    "templates": Area(("ci/", ".github/", "tests/unit/ci/"), ("tests/unit/ci/",)),
    "policies": Area(("policies/", "vapcheck/fixtures/")),
    "policy engine": Area(
        ("vapcheck/", "policies/", "tests/vapcheck/", "tests/cluster/policies/", _LIBRARIES),
        tuple(f"tests/cluster/policies/test_{name}" for name in _AGAINST_THE_SERVER),
    ),
    "environments": Area(
        (
            *_PLAN,
            "tests/environment_",
            "tests/conftest.py",
            "tests/unit/generators/",
            _LIBRARIES,
        ),
        ("tests/unit/generators/",),
    ),
    "command line": Area(
        (
            *_PLAN,
            "gpupool/cli/",
            "gpupool/policy_check/",
            "gpupool/snippet/",
            "vapcheck/",
            "policies/",
            "tests/unit/cli/",
        ),
        ("tests/unit/cli/", "tests/unit/snippet/"),
    ),
    "sharing": Area(("gpupool/sharing/", "gpupool/catalog/")),
    "promotion": Area(("gpupool/promote/",)),
    "conversion": Area(
        ("gpupool/convert/", "gpupool/importing/", "tests/unit/convert/", _LIBRARIES),
        ("tests/cluster/importing/", "tests/unit/convert/"),
    ),
    "monitoring": Area(
        (
            *("gpupool/monitoring/", "generators/monitoring.py", "gpupool/local/monitoring/"),
            *("gpupool/catalog/", "tests/unit/monitoring/"),
        ),
        ("tests/unit/monitoring/test_panels",),
    ),
    "report": Area(
        (
            *(*_PLAN, _LIBRARIES, "gpupool/report/"),
            *("tests/cluster/report/", "tests/unit/report/", "tests/browser/"),
        ),
        ("tests/cluster/report/", "tests/unit/report/", "tests/browser/", "tests/golden/test_reports"),
    ),
    "queue": Area(
        (
            *(*_PLAN, _LIBRARIES, "tools/nats/"),
            *("gpupool/queue/", "gpupool/client/", "gpupool/cluster/", "tests/queue/"),
        ),
        ("tests/queue/",),
    ),
    "delivery": Area(
        (
            *("generators/delivery", "generators/argocd", "gpupool/objects/"),
            *("infra/handover.py", "tests/cluster/delivery/", "tools/argocd/", "tools/flux/"),
        ),
        ("tests/cluster/delivery/",),
    ),
    "launcher": Area(
        (
            *(
                "gpupool/queue/roles/launcher.py",
                "gpupool/queue/roles/reconciler.py",
                "gpupool/queue/roles/attempt.py",
            ),
            *("gpupool/queue/kubernetes/", "tests/queue/kubernetes/"),
            *("gpupool/queue/store/launches.py", "gpupool/queue/store/attempts.py"),
            *(
                "charts/",
                "policies/",
                "generators/rbac.py",
                "generators/queue_release.py",
                "tests/cluster/queue/",
            ),
        ),
        tuple(
            f"tests/cluster/queue/test_{name}"
            for name in ("runs", "waits", "rights", "chart", "token", "shares", "exclusive")
        ),
    ),
    "examples": Area(
        ("examples/", "gpupool/client/", "tests/cluster/examples/"), ("tests/cluster/examples/",)
    ),
    "wheel": Area(
        (
            *("pyproject.toml", "setup.py", "MANIFEST.in", "gpupool/shipped.py", "gpupool/start/"),
            *("charts/", "ci/", _LIBRARIES),
        ),
        ("tests/cluster/wheel/",),
    ),
}
_GIVEN = os.environ.get("GPUPOOL_TESTS", "all")
_NAMES = frozenset(AREAS if _GIVEN == "all" else _GIVEN.split(","))
WHOLE = _NAMES & AREAS.keys()
"""Areas of which this run takes everything."""
HALVED = frozenset(name.removesuffix(HALF) for name in _NAMES if name.endswith(HALF))
"""Areas of which it takes half."""


SEED = int(os.environ.get("GPUPOOL_SEED") or 0)


def drawn(area: str, cases: Sequence[Case], count: int) -> list[Case]:
    """`count` of `cases`, in their order; all of them where the area is run whole."""
    assert area in AREAS, area
    if area in WHOLE or count >= len(cases):
        return list(cases)
    return _drawn(cases, count, area)


def kept(tests: Sequence[str]) -> frozenset[str]:
    """The ids of tests that run: of files of an area a share, of others all."""
    shared: dict[tuple[str, int], list[str]] = {}
    for test in tests:
        if share := _share(test):
            shared.setdefault((test.split("::")[0].rpartition("/")[0], share), []).append(test)
    left_out = {test for ids in shared.values() for test in ids}
    for (_, share), ids in shared.items():
        left_out -= set(ids[SEED % min(share, len(ids)) :: share])
    return frozenset(tests) - left_out


def called_for(changed: Sequence[str]) -> list[str]:
    """The areas that these files belong to."""
    return [name for name, area in AREAS.items() if any(path.startswith(_code(area)) for path in changed)]


def taken(changed: Sequence[str], always: Sequence[str] = ()) -> str:
    """GPUPOOL_TESTS of a run for these files and areas."""
    names = [name for name in called_for(changed) if name not in always]
    return ",".join([*(name + HALF * (len(names) > MANY) for name in names), *always])


def _code(area: Area) -> tuple[str, ...]:
    starts_clusters = any(tests.startswith("tests/cluster/") for tests in area.tests)
    return (*area.code, *_CLUSTER) if starts_clusters else area.code


def _drawn(cases: Sequence[Case], count: int, salt: str) -> list[Case]:
    numbers = random.Random(f"{SEED} {salt}").sample(range(len(cases)), count)
    return [cases[number] for number in sorted(numbers)]


def _share(test: str) -> int:
    """One in how many tests like this one a run takes; 0: all of them."""
    areas = ((name, area) for name, area in AREAS.items() if name not in WHOLE)
    return next((2 if name in HALVED else a.share for name, a in areas if test.startswith(a.tests)), 0)


if __name__ == "__main__":
    commit, *always = sys.argv[1:]
    command = ["git", "diff", "--name-only", commit]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    print(taken(done.stdout.splitlines(), always))
