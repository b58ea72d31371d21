"""Environments of tests as plain values, as text, as files and as Plans."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

from gpupool.environment.plan.model import Plan
from gpupool.environment.plan.resolve import resolve
from gpupool.environment.spec.load import check_shape
from gpupool.environment.spec.yaml_source import parse_source

Data = dict[str, Any]


def environment_data(
    platform: str, *, name: str = "trial", cluster: Data | None = None, **sections: Any
) -> Data:
    """Return an environment with what every file of the platform needs, and with `sections`.

    `cluster` adds fields to the section of that name.
    """
    environment: Data = {
        "apiVersion": "gpupool.dev/v1alpha1",
        "kind": "Environment",
        "metadata": {"name": name},
        "cluster": {"platform": platform, "name": name},
    }
    if platform == "eks":
        environment["cluster"]["region"] = "us-east-1"
        environment["karpenter"] = {"nodeRole": "nodes"}
    environment["cluster"] |= cluster or {}
    return environment | sections


def text_of(environment: Data) -> str:
    """The environment as a file: JSON, which is YAML with every string in quotes, but for the way in which
    the two escape characters beyond U+FFFF."""
    text = json.dumps(environment, ensure_ascii=False)
    return re.sub(r"[^ -~]", lambda found: f"\\U{ord(found[0]):08x}", text)


def plan_of(environment: Data) -> Plan:
    """Resolve the environment. Raises SpecError."""
    name = environment["metadata"]["name"]
    return resolve(check_shape(parse_source(f"{name}.yaml", text_of(environment).encode())))


def write_environment(folder: Path, environment: Data) -> Path:
    """Write the environment into `folder`, which is created if it does not exist, under its own name."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{environment['metadata']['name']}.yaml"
    path.write_text(yaml.safe_dump(environment, sort_keys=False), encoding="utf-8")
    return path
