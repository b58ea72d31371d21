"""What `repartition` and `rollback` refuse before they look at any cluster, and how they print."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from gpupool.cli.app import app
from gpupool.cli.repartition import _print_rollback, _show
from gpupool.findings import UsageError
from gpupool.live.repartition.order import Estimate, NodeEstimate
from gpupool.live.repartition.result import NodeRow, RepartitionResult, RepartitionStatus
from gpupool.live.rollback.last_good import LastGood
from gpupool.live.rollback.run import RollbackPlan, chosen

run = CliRunner()


@pytest.mark.parametrize("time", ["ten", "0m", "10", "-5m", "1h30m"])
def test_a_time_that_is_none(time: str) -> None:
    done = run.invoke(app, ["repartition", "prod", "inference-h100", "--timeout", time])
    assert isinstance(done.exception, UsageError)
    assert f"--timeout {time}: expected a duration such as 90s, 15m or 1h" in str(done.exception)


def test_a_pool_that_is_none() -> None:
    done = run.invoke(app, ["repartition", "prod", "missing"])
    assert isinstance(done.exception, UsageError)
    assert "prod has no pool 'missing'; pools: " in str(done.exception)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--now", "--wait"), "--now ignores the maintenance window and --wait waits for it"),
        (("--rollback", "--dry-run"), "give --rollback or --dry-run"),
    ],
)
def test_words_that_contradict_each_other(words: tuple[str, ...], said: str) -> None:
    done = run.invoke(app, ["repartition", "prod", "inference-h100", *words])
    assert isinstance(done.exception, UsageError)
    assert said in str(done.exception)


def test_an_order_says_what_it_does_not_know(capsys: pytest.CaptureFixture[str]) -> None:
    rows = (NodeEstimate("a", 1, 0, 0.0, 300.0), NodeEstimate("b", 2, 3, None, 300.0))
    estimate = Estimate(rows, 600.0, open_end=True)
    _show(
        RepartitionResult(
            "prod", "pool", RepartitionStatus.planned, (), ("maintenance window: ...",), estimate
        )
    )
    assert capsys.readouterr().out.splitlines() == [
        "BATCH  NODE  JOBS  WAIT         CHANGE",
        "    1  a        0  0 s          5 min",
        "    2  b        3  no deadline  5 min",
        "",
        "expected: at least 10 min (the operator's time is an estimate)",
        "prod pool: planned",
        "note: maintenance window: ...",
    ]


def test_an_end_names_every_node(capsys: pytest.CaptureFixture[str]) -> None:
    rows = (NodeRow("a", "2 mig-3g.40gb", "new"), NodeRow("b", "nothing", "old, cordoned; it offers nothing"))
    _show(RepartitionResult("prod", "pool", RepartitionStatus.stopped, rows, ("continue with: ...",)))
    assert capsys.readouterr().out.splitlines() == [
        "NODE  OFFERS         STATE",
        "a     2 mig-3g.40gb  new",
        "b     nothing        old, cordoned; it offers nothing",
        "prod pool: stopped",
        "note: continue with: ...",
    ]


STATES = [
    LastGood("prod", text, digest * 8, datetime(2026, 11, day, 9, tzinfo=UTC))
    for text, digest, day in (("new", "1234abcd", 21), ("older", "0fedcba9", 20))
]


@pytest.mark.parametrize(
    ("to", "text"), [(None, "new"), ("1", "new"), ("2", "older"), ("1234ab", "new"), ("0FEDCBA9", "older")]
)
def test_a_good_state_by_number_or_digest(to: str | None, text: str) -> None:
    assert chosen(STATES, to).text == text


@pytest.mark.parametrize("to", ["0", "3", "-1", "1234", "abcdef", "", "²"])
def test_a_good_state_that_is_not_kept(to: str) -> None:
    with pytest.raises(UsageError, match=r"stored: 1 \(1234abcd1234\), 2 \(0fedcba90fed\)"):
        chosen(STATES, to)


def test_an_interrupted_rollback_ends_as_an_interrupted_repartition(tmp_path: Path) -> None:
    rollback_plan = RollbackPlan(tmp_path / "prod.yaml", STATES[0], ())
    with pytest.raises(typer.Exit) as left:
        _print_rollback(
            "prod",
            rollback_plan,
            [RepartitionResult("prod", "pool", RepartitionStatus.interrupted)],
            [],
            False,
            "text",
        )
    assert left.value.exit_code == 130
