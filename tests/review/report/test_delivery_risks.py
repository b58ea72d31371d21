"""What is called a risk where Argo CD or Flux applies, and about priorities."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpupool.review.report.model import Risk
from tests.review.report.plans import EKS, STATIC, Data, Edit, change, edited

DELIVERY = {"engine": "flux", "repo": "https://git.example.com/p.git", "path": "rendered/trial"}
CLASSES = [
    {"name": "train", "value": 500, "level": "medium"},
    {"name": "batch", "value": 300, "level": "medium"},
]


def delivered(data: Data, **changes: Any) -> Data:
    return edited(data, lambda one: one.update(delivery={**DELIVERY, **changes}))


NAMED = delivered(
    edited(
        STATIC,
        lambda data: (
            data["pools"].pop(),
            data["pools"][0].update(taints=[]),
            data["pools"][1].update(taints=[]),
        ),
    )
)
"""Nodes by name and without taints, as GitOps must have them."""


def found(root: Path, base: Data, edit: Edit, kind: str) -> list[Risk]:
    return [risk for risk in change(root, base, edit).risks if risk.code == kind]


def without_parted(data: Data) -> None:
    data["pools"].pop(1)


@pytest.mark.parametrize(
    ("engine", "on_removal", "text"),
    [
        ("flux", "keep", "run kubectl delete nodepool parted right after it"),
        ("argocd", "keep", "Argo CD keeps pool parted until somebody deletes it"),
        ("argocd", "confirm", "until somebody deletes it"),
    ],
)
def test_a_removed_pool_that_stays_loses_what_its_nodes_need(
    engine: str, on_removal: str, text: str, tmp_path: Path
) -> None:
    own = edited(EKS, lambda data: data["pools"][1].update(taints=[{"key": "own", "effect": "NoSchedule"}]))
    base = delivered(own, engine=engine, onRemoval=on_removal)
    (risk,) = found(tmp_path, base, without_parted, "left")
    assert risk.category == "danger"
    assert text in risk.what
    for gone in ("configuration of the device plugin", "its MIG layout", "its NodeOverlay", "tolerations"):
        assert gone in risk.what


def test_a_removal_that_deletes_leaves_nothing_behind(tmp_path: Path) -> None:
    for base in (EKS, delivered(EKS, onRemoval="delete")):
        assert not found(tmp_path, base, without_parted, "left")


def test_nodes_of_others_keep_what_gitops_wrote_on_them(tmp_path: Path) -> None:
    (risk,) = found(tmp_path, NAMED, lambda data: data["pools"].pop(0), "left")
    assert risk.what.startswith("Flux removes no labels from nodes: n1, n2 keep the labels")
    (effect,) = change(tmp_path, NAMED, lambda data: data["pools"][0]["nodes"].update(names=["n1"])).effects
    assert "it keeps the pool's labels until somebody removes them" in effect.what
    moved = found(
        tmp_path,
        NAMED,
        lambda data: (data["pools"].pop(0), data["pools"][0]["nodes"].update(names=["n1", "n2", "n3"])),
        "left",
    )
    assert not moved


def test_a_removal_that_deletes_from_now_on(tmp_path: Path) -> None:
    def delete(data: Data) -> None:
        data["delivery"]["onRemoval"] = "delete"

    (risk,) = found(tmp_path, delivered(EKS), delete, "removal")
    assert "onRemoval changes from keep to delete" in risk.what
    back = delivered(EKS, onRemoval="delete")
    assert not found(tmp_path, back, lambda data: data["delivery"].update(onRemoval="keep"), "removal")


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        (EKS, DELIVERY, "pulumi stack rm trial --force"),
        (delivered(EKS), {}, "suspend Flux first"),
        (delivered(EKS), {**DELIVERY, "engine": "argocd"}, "suspend Flux before Argo CD starts"),
    ],
)
def test_another_engine(before: Data, after: Data, text: str, tmp_path: Path) -> None:
    (risk,) = found(tmp_path, before, lambda data: data.update(delivery=after), "delivery")
    assert text in risk.what


def classes(**changes: Any) -> Edit:
    """The first class with other settings."""
    return lambda data: data.update(priorities=[{**CLASSES[0], **changes}, CLASSES[1]])


PRIORITIES: dict[str, tuple[Edit, list[str]]] = {
    "value": (classes(value=600), ["value goes from 500 to 600. The class is deleted and recreated"]),
    "preempts": (classes(preempts=True), ["preempts is enabled, so its pods preempt"]),
    "order": (
        lambda data: data.update(priorities=[CLASSES[1], {**CLASSES[0], "value": 100}]),
        ["value goes from 500 to 100", "batch now precedes train"],
    ),
    "renamed": (classes(name="fit"), ["train is renamed to fit: running pods keep their priority"]),
    "removed": (lambda data: data.update(priorities=CLASSES[1:]), ["train is removed"]),
    "added": (lambda data: data["priorities"].append({"name": "x", "value": 1, "level": "low"}), []),
    "described": (classes(description="words"), []),
}


@pytest.mark.parametrize("name", PRIORITIES)
@pytest.mark.parametrize("delivery", [{}, {"delivery": DELIVERY}])
def test_priorities(name: str, delivery: Data, tmp_path: Path) -> None:
    edit, expected = PRIORITIES[name]
    reported = found(tmp_path, {**EKS, **delivery, "tenants": [], "priorities": CLASSES}, edit, "priority")
    assert [risk.category for risk in reported] == ["caution"] * len(expected)
    assert all(text in risk.what for text, risk in zip(expected, reported, strict=True))
