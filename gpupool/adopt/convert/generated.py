"""What gpupool sets on every object of a kind, whatever the environment file says: what it generates from the
smallest file (`reference.yaml`). An input that says the same loses nothing.

Not from the file that is being converted: with a finding in it, it generates nothing, and then all that
gpupool would set would be listed as lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from gpupool.environment.plan.resolve import resolve
from gpupool.environment.spec.load import check_shape
from gpupool.environment.spec.yaml_source import parse_source
from gpupool.generators import generate
from gpupool.generators.manifest import Bundle

_REFERENCE = Path(__file__).parent / "reference.yaml"


@cache
def _bundle(platform: str) -> Bundle:
    files = yaml.safe_load(_REFERENCE.read_text(encoding="utf-8"))
    text = yaml.safe_dump({**files["both"], **files[platform]})
    return generate(resolve(check_shape(parse_source(_REFERENCE.name, text.encode()))))


def generated_spec(kind: str, platform: str) -> Mapping[str, Any]:
    """`spec` of the object of that kind."""
    (manifest,) = (manifest for manifest in _bundle(platform) if manifest.kind == kind)
    spec: Mapping[str, Any] = manifest.body["spec"]
    return spec
