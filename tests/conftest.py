"""What all tests share: how a run is spread over workers, how it ends, and what hypothesis draws.

No example has a deadline: how long one takes says more of the machine than of the code.
"""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from gpupool.cli.progress import QUIET_VARIABLE
from tests import selection
from tests.examples import SEED, SHARE

settings.register_profile(
    "here",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=100 if selection.EVERYTHING else 100 // SHARE,
)
settings.register_profile("reproducible", settings.get_profile("here"), derandomize=True, database=None)
"""The same examples in every run of the same tests: what CI finds wrong is wrong on a laptop too, with CI=1.

New ones are drawn wherever CI is not set; GPUPOOL_FUZZ multiplies some.
"""
settings.load_profile("reproducible" if os.environ.get("CI") else "here")


CONTRACTS = "contracts"
"""Group of the contracts that need a control plane."""
TOGETHER = {"tests/cluster/drift": "drift", "tests/cluster/wheel": "wheel"}
"""Folder -> group of tests that run on one worker, one after the other: they share one applied environment,
or one wheel.

Every other file is a group of its own; each worker has its own control plane. Stacks of one name share only
the file with the encryption salt that Pulumi keeps in the checkout, and none of them has a secret.
"""
FIRST = (
    *("tests/cluster/drift", "tests/cluster/pulumi", "tests/cluster/pools", "tests/cluster/wheel"),
    *("tests/queue/kubernetes", "tests/cluster", "tests/docs", "tests/unit/ci", "tests/cli"),
    *("tests/property", "tests"),
)
"""Folders in the order in which workers take them up: what takes longest first, and nothing long last."""


def group(test: str) -> str:
    """The group of a test: its file, or all contracts on a cluster, which share one control plane."""
    if not selection.EVERYTHING and selection.is_contract(test) and test.startswith("tests/cluster/"):
        return CONTRACTS
    file = test.split("::")[0]
    return next((name for folder, name in TOGETHER.items() if file.startswith(f"{folder}/")), file)


class GroupScheduling(LoadScopeScheduling):
    """Gives a worker one group after the other. (xdist's own groups, by mark, end with pytest 9.2.)"""

    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> GroupScheduling:
    """Groups in the order in which the workers have them."""
    config.option.loadscopereorder = False
    return GroupScheduling(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take the run's tests; on a worker, begin with what takes long."""
    taken = {item: selection.runs(item.nodeid) for item in items}
    config.hook.pytest_deselected(items=[item for item in items if not taken[item]])
    items[:] = [item for item in items if taken[item]]
    if not hasattr(config, "workerinput"):
        return

    def rank(item: pytest.Item) -> int:
        if group(item.nodeid) == CONTRACTS:
            return -1
        return next(n for n, folder in enumerate(FIRST) if item.nodeid.startswith(f"{folder}/"))

    items.sort(key=rank)


def pytest_report_header() -> str:
    """What the run takes."""
    return f"tests: {os.environ.get('GPUPOOL_TESTS', 'those named')}; GPUPOOL_SEED={SEED}"


def pytest_configure() -> None:
    """A shell starts background jobs, as a CI run may be one, with Ctrl-C ignored; children inherit that.

    They inherit as well that no progress is printed on a slow machine, where tests compare the output. And a
    process that Pulumi's gRPC runs in must not have gRPC look after its children: once, that ended initdb.
    """
    os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "false"
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ[QUIET_VARIABLE] = "100000"


FIGURE = "figure"
"""Name of the property under which a test reports a sentence with figures; the run ends with them."""


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say what was counted and how to go on, above pytest's own closing line."""
    for report in terminalreporter.getreports("passed"):
        for name, text in report.user_properties:
            if name == FIGURE and report.when == "call":
                terminalreporter.write_line(str(text))
    terminalreporter.write_line("go on with: make lint, make bench; one test: pytest -k NAME")
