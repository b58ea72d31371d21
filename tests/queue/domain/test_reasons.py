"""One table says what each reason to wait means, and what to do."""

from __future__ import annotations

from pathlib import Path

from gpupool.queue.domain.reasons import REASONS, remediation, table
from gpupool.queue.records import WaitReason


def test_each_reason_has_its_words_and_the_docs_have_them() -> None:
    assert set(REASONS) == set(WaitReason)
    docs = (Path(__file__).parents[3] / "docs" / "queue.md").read_text(encoding="utf-8")
    assert f"\n\n{table()}\n" in docs, "put it there: python -m gpupool.queue.domain.reasons"


def test_a_reason_of_a_later_version_has_no_advice() -> None:
    assert remediation("not_possible")
    assert remediation("phase_of_the_moon") is None
