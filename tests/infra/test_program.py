"""The Pulumi program is judged by policy before it registers anything. No engine, no cluster."""

from __future__ import annotations

from pathlib import Path

import pulumi
import pytest

from gpupool.infra import program
from gpupool.policy import gate as policy_gate
from tests.infra.test_policy_gate import never, plan_of

FILE = Path("environments", "trial.yaml")


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Environments that the program has registered."""
    found: list[str] = []
    monkeypatch.setattr(program, "register", lambda plan, _: found.append(plan.environment))
    monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: True)
    return found


def test_what_policy_denies_is_not_registered(tmp_path: Path, registered: list[str]) -> None:
    plan_of(tmp_path, never())
    with pytest.raises(policy_gate.PolicyRefusalError, match="deny nodes-go: NodePool models: "):
        program.run(str(tmp_path / FILE))
    assert registered == []


def test_warnings_are_logged(tmp_path: Path, registered: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    plan_of(tmp_path, never(), policies={"overrides": {"nodes-go": "warn"}})
    logged: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", logged.append)
    program.run(str(tmp_path / FILE))
    assert registered == ["trial"]
    assert [line.partition(": ")[0] for line in logged] == ["warn nodes-go"]
