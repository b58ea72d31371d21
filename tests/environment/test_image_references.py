"""Which texts are images: what is refused here, the policy refuses too, and both as a kubelet does."""

from __future__ import annotations

import itertools
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gpupool.environment.image_references import WrongImage, parsed
from gpupool.environment.plan.resolve import read_plan
from tests import go
from tests.admission import ANYBODY, judge_of, said
from vapcheck.judging.judge import Judge

TABLE = {
    verdict: [text.replace("LONG", "a" * 250).replace("ZEROS", "0" * 64) for text in texts]
    for verdict, texts in yaml.safe_load(
        Path(__file__).with_name("image_references.yaml").read_text(encoding="utf-8")
    ).items()
}
ROWS = [(text, verdict) for verdict, texts in TABLE.items() for text in texts]
pieces = st.sampled_from(
    ["a", "A", "0", ".", "-", "_", "/", ":", "@", "[", "]", "::1", "sha256:" + "0" * 64, "latest",
     "docker.io", "localhost", "a.b", ":5000", "b" * 120]
)  # fmt: skip
texts = st.lists(pieces, max_size=8).map("".join)


def verdict(text: str) -> str:
    try:
        return "pinned" if parsed(text).pinned else "floating"
    except WrongImage:
        return "refused"


@cache
def judge() -> Judge:
    return judge_of(read_plan("local"))


def by_policy(*images: str) -> list[str]:
    """The verdicts of `pin-images` on a pod of these images."""
    pod: Any = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "pod", "namespace": "team-vision"},
        "spec": {"containers": [{"name": f"c{n}", "image": image} for n, image in enumerate(images)]},
    }
    return [line for line in said(judge(), pod, ANYBODY) if "pin-images" in line]


@pytest.mark.parametrize(("text", "expected"), ROWS)
def test_the_table(text: str, expected: str) -> None:
    assert verdict(text) == expected
    said = by_policy(text)
    assert bool(said) is (expected != "pinned")
    if text and text.isprintable():  # else Kubernetes has its own message
        assert any("not a valid image reference" in line for line in said) is (expected == "refused"), said


def test_a_kubelet_reads_the_same() -> None:
    made = ["".join(parts) for parts in itertools.product(("a", "A", ".", ":", "/", "_", "-"), repeat=4)]
    images = [*(text for text, _ in ROWS), *made]
    for image, found in zip(images, go.run(Path(__file__).with_name("image.go"), images), strict=True):
        assert (verdict(image) == "refused") is (found is None), image
        if found is not None:
            tag, digest = found[1:]
            floats = not digest and tag == "latest"
            assert verdict(image) == ("floating" if floats else "pinned"), image


@given(texts)
def test_the_policy_says_the_same_of_any_text(text: str) -> None:
    assert bool(by_policy(text)) is (verdict(text) != "pinned")


def test_its_parts() -> None:
    digest = "sha256:" + "0" * 64
    found = parsed(f"registry.example:5000/ml/work:1@{digest}")
    assert (found.name, found.tag, found.digest) == ("registry.example:5000/ml/work", "1", digest)
    assert parsed("localhost:5000/work").tag is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ml/Work:1", "its name has capital letters"),
        ("https://registry.example/work:1", "it has a scheme"),
        ("work@sha256:abc", "'sha256:abc' is no digest"),
        ("work:a/b:-1", "'-1' is no tag"),
        ("0" * 64, "64 hexadecimal digits alone are an image's id"),
    ],
)
def test_the_message_names_what_is_wrong(text: str, reason: str) -> None:
    with pytest.raises(WrongImage, match=reason):
        parsed(text)
