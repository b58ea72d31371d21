"""Small environments for the report's tests, and both states of one as the report sees them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import yaml

from gpupool.generators import generate
from gpupool.review.report.build import build
from gpupool.review.report.environment_state import EnvironmentState
from gpupool.review.report.git_states import ProjectFiles
from gpupool.review.report.model import EnvironmentReport, ProjectState, Report
from tests.environment_files import Data, environment_data, plan_of

TODAY = date(2026, 9, 1)

EKS = environment_data(
    "eks",
    cluster={"name": "ml"},
    gpuOperator={"driver": {"enabled": False}},
    karpenter={"nodeRole": "nodes", "amiAlias": "al2023@v20260801"},
    pools=[
        {
            "name": "shared",
            "gpu": "a100-80gb",
            "sharing": {"mode": "time-slicing", "replicas": 4},
            "nodes": {"instanceTypes": ["p4de.24xlarge"], "max": 4, "spotShare": 0.5},
            "maintenance": {"window": "Sat 02:00-06:00 UTC"},
        },
        {
            "name": "parted",
            "gpu": "a100-80gb",
            "sharing": {"mode": "mig", "layout": {"3g.40gb": 2}},
            "nodes": {"instanceTypes": ["p4de.24xlarge"], "max": 2},
        },
    ],
    tenants=[{"name": "a", "namespace": "team-a", "pools": {"shared": {"gpus": 8}}, "budget": {"usd": 1000}}],
)
STATIC = environment_data(
    "static",
    cluster={"name": "rack"},
    gpuOperator={"driver": {"enabled": False}},
    pools=[
        {
            "name": "one",
            "gpu": "a100-80gb",
            "sharing": {"mode": "time-slicing", "replicas": 2},
            "nodes": {"names": ["n1", "n2"]},
        },
        {"name": "two", "gpu": "a100-80gb", "nodes": {"names": ["n3"]}},
        {"name": "found", "gpu": "a100-80gb", "nodes": {"selector": {"rack": "7"}, "max": 3}},
    ],
)
Edit = Callable[[Data], Any]


def edited(data: Data, edit: Edit) -> Data:
    after = copy.deepcopy(data)
    edit(after)
    return after


def state(data: Data) -> EnvironmentState:
    plan = plan_of(data)
    return EnvironmentState(plan, generate(plan))


def snapshot(root: Path, name: str, **environments: Data) -> ProjectFiles:
    """A state of a project with these environments, and no policies of its own."""
    files = {key: yaml.safe_dump(value, sort_keys=False).encode() for key, value in environments.items()}
    return ProjectFiles(ProjectState(name, None, False), files, {}, {}, {}, root, "environments")


def report(root: Path, data: Data, edit: Edit, **options: Any) -> Report:
    threshold = options.pop("cost_threshold", 20.0)
    return build(
        snapshot(root, "base", trial=data),
        snapshot(root, "head", trial=edited(data, edit)),
        [],
        TODAY,
        threshold,
        **options,
    )


def change(root: Path, data: Data, edit: Edit, **options: Any) -> EnvironmentReport:
    (environment,) = report(root, data, edit, **options).environments
    return environment
