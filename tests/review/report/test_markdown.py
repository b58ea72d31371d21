"""The comment: what somebody else's words can't do to it, and how long it can get."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupool.review.report.build import build
from gpupool.review.report.markdown import LONGEST, MARKER, comment, plain
from gpupool.review.report.text import text
from tests.review.report.plans import EKS, TODAY, Data, edited, report, snapshot

NASTY = "a | b <img src=x onerror=alert(1)> @everyone `code` **bold** [link](http://x) <!-- hidden \u202e"


def waived(data: Data) -> None:
    waiver = {"policy": "pin-images", "owner": NASTY, "reason": NASTY, "until": "2026-12-31"}
    data["policies"] = {"waivers": [waiver]}
    data["pools"][0]["description"] = NASTY


def test_words_of_a_file_are_words(tmp_path: Path) -> None:
    said = comment(report(tmp_path, EKS, waived))
    assert "<img" not in said
    assert "@everyone" not in said
    assert "\u202e" not in said
    assert "](http" not in said.replace("\\]", "")
    assert said.count("<!--") == said.count("-->")
    rows = [line for line in said.splitlines() if line.startswith("| shared")]
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 6 for row in rows)


@given(st.text())
def test_no_text_opens_a_tag_a_mention_or_a_line(given_text: str) -> None:
    said = plain(given_text)
    assert "<" not in said.replace("@<!-- -->", "")
    assert not re.search(r"(?<![A-Za-z0-9])@[A-Za-z0-9]", said)
    assert "\n" not in said
    assert not re.search(r"(?<!\\)(\\\\)*\|", said)


def test_details_open_and_close(tmp_path: Path) -> None:
    said = comment(report(tmp_path, EKS, waived))
    assert said.count("<details>") == said.count("</details>") == said.count("<summary>")
    assert said.startswith(MARKER)
    assert "\n\n\n" not in said
    assert len(said.split("<details>")[0].splitlines()) < 30, "what is not folded fits a screen"


@pytest.mark.parametrize("count", [50, 100])
def test_a_large_change_fits_a_comment(tmp_path: Path, count: int) -> None:
    def many(data: Data) -> None:
        data["pools"] = [
            {
                "name": f"pool-{number}",
                "gpu": "a100-80gb",
                "sharing": {"mode": "mig", "layout": {"1g.10gb": number % 7 + 1}},
                "nodes": {"instanceTypes": ["p4de.24xlarge"], "max": 2},
            }
            for number in range(count)
        ]
        data["tenants"] = [
            {"name": f"t{number}", "namespace": f"t{number}", "pools": {f"pool-{number}": {"gpus": 1}}}
            for number in range(count)
        ]

    def other(data: Data) -> None:
        many(data)
        for each in data["pools"]:
            each["labels"] = {"a": "b"}

    before: dict[str, Any] = edited({**EKS, "metadata": {"name": "trial"}}, many)
    made = build(
        snapshot(tmp_path, "base", trial=before),
        snapshot(tmp_path, "head", trial=edited(before, other)),
        [],
        TODAY,
        20,
    )
    said = comment(made)
    assert len(said) <= LONGEST + 200
    assert f"and {count - 40} more; see `gpupool report --format html`" in said
    assert f"pool-{count - 1}:" in text(made), "the terminal has all of it"
