"""The order of environments: what a promotion must not skip, and the error when it does."""

from __future__ import annotations

import pytest

from gpupool.review.promote.chain import Chain, SkipError

CHAIN = Chain({"dev": None, "staging": "dev", "prod": "staging", "lab": None, "loop": "loop"})


def test_one_step_is_fine() -> None:
    CHAIN.hold("dev", "staging")
    CHAIN.hold("staging", "prod")
    assert CHAIN.before("prod") == ("staging", "dev")
    assert CHAIN.before("loop") == ("loop",)


@pytest.mark.parametrize(
    ("source", "target", "said"),
    [
        (
            "dev",
            "prod",
            r"would skip staging: dev -> staging -> prod; start with: gpupool promote dev staging",
        ),
        ("prod", "dev", r"prod comes after dev: dev -> staging -> prod; promote in the other direction"),
        ("lab", "prod", r"prod comes from staging; write promotion: \{from: lab\}"),
        ("lab", "dev", r"dev has no promotion source"),
    ],
)
def test_others_are_refused(source: str, target: str, said: str) -> None:
    with pytest.raises(SkipError, match=said):
        CHAIN.hold(source, target)
