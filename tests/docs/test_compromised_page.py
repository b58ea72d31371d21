"""The table of docs/compromised-credentials.md names tests that exist, and gpupool takes its example."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from gpupool.environment.spec.tenants import Tenant

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "compromised-credentials.md").read_text(encoding="utf-8")


def test_each_part_has_tests_that_exist() -> None:
    rows = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.startswith("| ")][1:]
    tests = {row[0]: re.findall(r"`(tests/[\w/.]+)`", row[-1]) for row in rows}
    assert [part for part, paths in tests.items() if not paths] == ["write access to the environment file"]
    assert not [path for paths in tests.values() for path in paths if not (ROOT / path).is_file()]


def test_the_example_is_taken() -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    (tenant,) = yaml.safe_load(example)["tenants"]
    assert Tenant.model_validate(tenant).jobs.checkpoints == "s3://models/team-vision/"
