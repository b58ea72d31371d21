"""One table says what each reason to wait means, and what to do."""

from __future__ import annotations

import os
from pathlib import Path

from gpupool.queue.domain.reasons import REASONS, remediation, table
from gpupool.queue.records import WaitReason

PAGE = Path(__file__).parents[3] / "docs" / "submit-jobs.md"
HEAD = table().partition("\n")[0]


def test_each_reason_has_its_words_and_the_docs_have_them() -> None:
    assert set(REASONS) == set(WaitReason)
    if os.environ.get("GPUPOOL_WRITE_GOLDEN"):
        before, rest = PAGE.read_text(encoding="utf-8").split(HEAD)
        after = rest.partition("\n\n")[2]
        PAGE.write_text(f"{before}{table()}\n{after}", encoding="utf-8")
    assert f"\n\n{table()}\n" in PAGE.read_text(encoding="utf-8"), "make golden writes it again"


def test_a_reason_of_a_later_version_has_no_advice() -> None:
    assert remediation("unschedulable")
    assert remediation("phase_of_the_moon") is None
