"""An Alertmanager takes the routing that the documentation shows, and sends each alert where it says."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from gpupool.generators.monitoring import rules
from tests.generators.monitoring.environments import everything
from tests.generators.monitoring.routing import program, routing


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "alertmanager.yaml"
    path.write_text(yaml.safe_dump(routing()))
    return path


def test_the_configuration_is_taken(config: Path) -> None:
    checked = [program("amtool"), "check-config", str(config)]
    subprocess.run(checked, check=True, capture_output=True)


@pytest.mark.parametrize(
    ("labels", "receivers"),
    [
        ({"alertname": "GpupoolGpuXidOfTheMachine", "severity": "critical", "pool": "p"}, "on-call"),
        ({"alertname": "GpupoolGpuHot", "severity": "warning", "pool": "p"}, "platform"),
        ({"alertname": "GpupoolBudget", "severity": "info", "tenant": "vision"}, "vision,platform"),
        ({"alertname": "GpupoolBudget", "severity": "info", "tenant": "audio"}, "platform"),
        ({"alertname": "NodeDown", "severity": "critical"}, "platform"),
    ],
)
def test_each_alert_goes_to_its_receivers(config: Path, labels: dict[str, str], receivers: str) -> None:
    alert = [f"{name}={value}" for name, value in labels.items()]
    command = [program("amtool"), "config", "routes", "test", f"--config.file={config}", *alert]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == receivers


def test_the_alerts_that_it_names_exist() -> None:
    alerts = {
        rule["alert"] for group in rules.groups(everything()) for rule in group["rules"] if "alert" in rule
    }
    for rule in routing()["inhibit_rules"]:
        for matcher in (*rule["source_matchers"], *rule["target_matchers"]):
            names = matcher.partition("=~")[2].strip(' "').split("|")
            assert set(names) <= alerts
