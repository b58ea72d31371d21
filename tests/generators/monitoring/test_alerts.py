"""Rules as Prometheus itself takes them; every alert in a case in which it fires, and one in which not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupool.generators.monitoring import rules
from tests.generators.monitoring.environments import ROOT, SHIPPED, everything, shipped
from tests.prometheus import promtool

CASES: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "alert_cases.yaml").read_text())
CARD = 'node="a",pool="training-h100",gpu="0",UUID="G0",modelName="H"'
INSTANCE = 'node="a",pool="inference-h100",gpu="0",UUID="G0",modelName="H",GPU_I_PROFILE="3g.40gb"'


def rules_file(plan: Any, folder: Path) -> Path:
    path = folder / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": rules.groups(plan)}))
    return path


def alerts(plan: Any) -> set[str]:
    return {rule["alert"] for group in rules.groups(plan) for rule in group["rules"] if "alert" in rule}


def series(case: dict[str, Any]) -> list[dict[str, str]]:
    """The case's series, with `card` and `instance` written out; of a label named twice the last counts."""
    rows = []
    for name, values in case["series"].items():
        metric, _, inside = name.rstrip("}").partition("{")
        pairs: dict[str, str] = {}
        for part in inside.replace("card", CARD).replace("instance,", f"{INSTANCE},").split(","):
            label, _, value = part.partition("=")
            if value:
                pairs[label] = value
        text = ",".join(f"{label}={value}" for label, value in pairs.items())
        rows.append({"series": f"{metric}{{{text}}}", "values": str(values)})
    return rows


@pytest.mark.parametrize("name", [*SHIPPED, "everything"])
def test_prometheus_takes_the_rules(name: str, tmp_path: Path) -> None:
    plan = everything() if name == "everything" else shipped(name)
    promtool("check", "rules", "--lint=all", "--lint-fatal", str(rules_file(plan, tmp_path)))


def test_each_alert_fires_where_it_should_and_not_elsewhere(tmp_path: Path) -> None:
    rules_file(everything(), tmp_path)
    tests = [
        {
            "name": f"{case['alert']}: {case['name']}",
            "interval": "1m",
            "input_series": series(case),
            "promql_expr_test": [
                {
                    "expr": f'count(ALERTS{{alertname="{case["alert"]}", alertstate="firing"}})',
                    "eval_time": case["at"],
                    "exp_samples": [{"value": case["firing"], "labels": "{}"}] if case["firing"] else [],
                }
            ],
        }
        for case in CASES
    ]
    path = tmp_path / "tests.yaml"
    path.write_text(
        yaml.safe_dump({"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": tests})
    )
    promtool("test", "rules", str(path))


def test_each_alert_has_both_cases() -> None:
    fire = {case["alert"] for case in CASES if case["firing"]}
    rest = {case["alert"] for case in CASES if not case["firing"]}
    assert fire == rest == alerts(everything())


def test_each_alert_has_its_page_and_says_what_it_is() -> None:
    page = (ROOT / "docs" / "alerts.md").read_text(encoding="utf-8")
    headings = {line.removeprefix("## ").strip() for line in page.splitlines() if line.startswith("## ")}
    assert alerts(everything()) <= headings
    for group in rules.groups(everything()):
        for rule in group["rules"]:
            if "alert" in rule:
                assert rule["labels"]["severity"] in ("info", "warning", "critical")
                assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
                assert rule["annotations"]["runbook_url"].endswith(f"#{rule['alert'].lower()}")


def test_sums_count_each_gpu_once_and_nodes_weigh_their_instances(tmp_path: Path) -> None:
    """A GPU of two MIG instances beside a whole one: as many rows as there are GPUs and instances."""
    rules_file(everything(), tmp_path)
    rows = {}
    for number, profile, active in ((1, "3g.40gb", 0.5), (2, "2g.20gb", 0)):
        labels = INSTANCE.replace("3g.40gb", profile) + f',GPU_I_ID="{number}"'
        rows[f"DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{labels}}}"] = f"{active}x9"
        rows[f"DCGM_FI_DEV_POWER_USAGE{{{labels}}}"] = "300x9"
    for pod in ("x", "y"):
        labels = CARD.replace('"a"', '"b"').replace("G0", "G1") + f',exported_pod="{pod}"'
        rows[f"DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{labels}}}"] = "0.25x9"
        rows[f"DCGM_FI_DEV_POWER_USAGE{{{labels}}}"] = "100x9"
    expected = {
        "sum(gpupool:gpu_power:watts)": 400,
        "count(gpupool:gpu_engine_active:ratio)": 3,
        'round(sum(gpupool:node_engine_active:ratio{node="a"}), 0.001)': 0.3,
        'round(sum(gpupool:pool_engine_active:ratio{pool="inference-h100"}), 0.001)': 0.3,
        'round(sum(gpupool:node_gpus:count{node="a"}), 0.001)': 0.714,
        'sum(gpupool:node_gpus:count{node="b"})': 1,
        'sum(gpupool:node_engine_active:ratio{node="b"})': 0.25,
    }
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in rows.items()],
        "promql_expr_test": [
            {"expr": expression, "eval_time": "5m", "exp_samples": [{"value": value, "labels": "{}"}]}
            for expression, value in expected.items()
        ],
    }
    path = tmp_path / "tests.yaml"
    path.write_text(
        yaml.safe_dump({"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": [test]})
    )
    promtool("test", "rules", str(path))
