"""`gpupool simulate` and `gpupool recommend` as people and machines run them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
HERE = Path(__file__).parent
MADE = str(HERE / "traces" / "made.yaml")


def gpupool(*arguments: str, code: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "gpupool.cli.main", *arguments],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


def test_the_contract_of_json() -> None:
    text = gpupool(
        "simulate", "local", "--trace", MADE, "--format", "json", "--window", "0..1d", "--repeat", "2"
    )
    answer = json.loads(text)
    assert {
        "jobs",
        "served_gpu_hours",
        "waits",
        "utilisation",
        "usd",
        "spot_share",
        "left_out",
    } <= answer.keys()
    assert answer["waits"].keys() == {"p50", "p95", "p99"}
    assert all(row.keys() == {"reason", "jobs"} for row in answer["left_out"])
    assert [row["reason"] for row in answer["left_out"]] == ["outside-the-window"]
    assert len(answer["runs"]) == 1
    assert answer["trace"]["format"] == "made"


def test_text_comparison_and_files(tmp_path: Path) -> None:
    out = tmp_path / "out"
    text = gpupool(
        "simulate", "local", "--trace", MADE, "--against", "environments/local.yaml", "--out", str(out),
        "--assert", "wait.p95<1h", "--sensitivity", "--load", "2",
    )  # fmt: skip
    assert "GPU hours served" in text
    assert "With local in place of local:\n- nothing differs" in text
    assert "holds: wait.p95<1h" in text
    assert "startup=180 s (weak)" in text
    assert json.loads((out / "figures.json").read_text())["against"]
    assert "<svg" in (out / "report.html").read_text()


def test_against_a_commit() -> None:
    text = gpupool("simulate", "local", "--trace", MADE, "--against", "HEAD", "--window", "0..6h")
    assert "LOCAL AT HEAD" in text
    wrong = gpupool("simulate", "local", "--trace", MADE, "--against", "no-such-thing", code=2)
    assert "--against no-such-thing: no environment" in wrong
    assert "and it is not a commit" in wrong


def test_what_does_not_hold_is_exit_1() -> None:
    text = gpupool("simulate", "local", "--trace", MADE, "--assert", "served_gpu_hours<1", code=1)
    assert "does not hold: served_gpu_hours<1" in text


def test_wrong_use_is_said_in_one_line(tmp_path: Path) -> None:
    cases = {
        ("--window", "1d"): "--window '1d'",
        ("--window", "2d..1d"): "--window '2d..1d'",
        ("--zone", "CET"): "--zone 'CET'",
        ("--set", "startup"): "--set startup",
        ("--trace-format", "slurm"): "--trace-format slurm",
        ("--out", str(HERE / "poor.yaml")): "choose a writable folder",
    }
    for options, words in cases.items():
        assert words in gpupool("simulate", "local", "--trace", MADE, *options, code=2), options
    gone = str(tmp_path / "gone")
    for options in (("--trace", gone), ("--trace", MADE, "--map", gone)):
        assert "can't be read: No such file" in gpupool("simulate", "local", *options, code=1)


def test_advice() -> None:
    text = gpupool("recommend", str(HERE / "poor.yaml"), "--trace", MADE, "--window", "0..6h")
    assert "changes tried" in text
    answer = json.loads(
        gpupool(
            "recommend", str(HERE / "poor.yaml"), "--trace", MADE, "--window", "0..6h", "--format", "json"
        )
    )
    assert answer["tried"] == answer["possible"] > 0
    assert all(row["patch"].startswith("---") for row in answer["proposals"])


def test_a_report_says_what_jobs_come_to(tmp_path: Path) -> None:
    environments = tmp_path / "environments"
    environments.mkdir()
    text = (HERE / "poor.yaml").read_text(encoding="utf-8")
    (environments / "poor.yaml").write_text(text, encoding="utf-8")
    git = ["git", "-c", "user.name=test", "-c", "user.email=test@example.org"]
    for step in (["init", "-q"], ["add", "."], ["commit", "-qm", "before"]):
        subprocess.run([*git, *step], cwd=tmp_path, check=True)
    (environments / "poor.yaml").write_text(text.replace("{3g.40gb: 2}", "{1g.20gb: 4}"), encoding="utf-8")
    command = [sys.executable, "-m", "gpupool.cli.main", "report", "--base", "HEAD", "--trace", MADE]
    for format in ("text", "markdown", "html", "json"):
        done = subprocess.run(
            [*command, "--format", format], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        if format == "json":
            (environment,) = json.loads(done.stdout)["environments"]
            jobs = [environment["simulated"][side]["jobs"] for side in ("before", "after")]
            assert jobs[0] == jobs[1] > 0
        else:
            assert "Jobs of the trace" in done.stdout
            assert "GPU hours served" in done.stdout
