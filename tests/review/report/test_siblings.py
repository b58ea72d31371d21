"""What a file says of the environments beside it is held to those of its own state, whatever is on disk."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from gpupool.review.report.build import build
from gpupool.review.report.git_states import snapshots
from gpupool.review.report.model import EnvironmentReport
from tests.environment_files import write_environment
from tests.review.report.plans import EKS, TODAY, Data, edited, report, snapshot
from tests.review.report.test_git_states import commit, git

Files = dict[str, Data]


def environment(name: str, **fields: object) -> Data:
    cluster = {**EKS["cluster"], "name": f"ml-{name}"}
    return {**EKS, "metadata": {"name": name}, "cluster": cluster, **fields}


def promoted(origin: str, most: int = 4, **rules: object) -> Data:
    """`prod`, whose first pool has at most so many nodes."""
    prod = environment("prod", promotion={"from": origin, **rules})
    return edited(prod, lambda data: data["pools"][0]["nodes"].update(max=most))


DEV, STAGING = environment("dev"), environment("staging")
STAGING_LEFT_OUT = (
    {"dev": DEV, "staging": STAGING, "prod": promoted("staging")},
    {"dev": DEV, "prod": promoted("dev", 30)},
)


def put(folder: Path, files: Files) -> None:
    environments = folder / "environments"
    for path in environments.glob("*.yaml"):
        path.unlink()
    for data in files.values():
        write_environment(environments, data)


def reported(
    folder: Path, before: Files, after: Files, *, committed: bool, policy: bool = False
) -> dict[str, EnvironmentReport]:
    """By name, with the state after committed or in the working tree; with `policy` the state before has a
    policy of its own, so that the two states are not read in one folder."""
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    put(folder, before)
    if policy:
        (folder / "policies").mkdir()
        (folder / "policies" / "own.yaml").write_text("# none yet\n")
    commit(folder)
    put(folder, after)
    if policy:
        (folder / "policies" / "own.yaml").unlink()
    if committed:
        commit(folder)
    base, head = ("HEAD~1", "HEAD") if committed else ("HEAD", None)
    with snapshots(folder / "environments", base, head) as states:
        return {each.name: each for each in build(*states, [], TODAY, 20).environments}


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("policy", [True, False])
def test_an_origin_that_goes_is_there_before(tmp_path: Path, committed: bool, policy: bool) -> None:
    made = reported(tmp_path / "project", *STAGING_LEFT_OUT, committed=committed, policy=policy)
    prod = made["prod"]
    assert (prod.invalid.before, prod.invalid.after) == ((), ())
    assert (prod.nodes.before, prod.nodes.after) == (6, 32)
    assert (made["staging"].change, made["dev"].change) == ("removed", "unchanged")


@pytest.mark.parametrize("committed", [True, False])
def test_an_origin_that_comes_is_not_there_before(tmp_path: Path, committed: bool) -> None:
    after, left_out = STAGING_LEFT_OUT
    before = {**left_out, "prod": after["prod"]}
    prod = reported(tmp_path / "project", before, after, committed=committed)["prod"]
    (note,) = prod.invalid.before
    assert (note.path, note.what) == ("promotion.from", "environment 'staging' does not exist")
    assert note.remediation == "defined: dev"
    assert (prod.invalid.after, prod.change) == ((), "changed")


@pytest.mark.parametrize("committed", [True, False])
def test_a_file_that_stays_may_lose_its_origin(tmp_path: Path, committed: bool) -> None:
    """The file's own bytes are the same in both states; what they mean is not."""
    before, _ = STAGING_LEFT_OUT
    after = {name: data for name, data in before.items() if name != "staging"}
    prod = reported(tmp_path / "project", before, after, committed=committed)["prod"]
    assert prod.invalid.before == ()
    assert [note.what for note in prod.invalid.after] == ["environment 'staging' does not exist"]
    assert [risk.code for risk in prod.risks] == ["invalid"]


@pytest.mark.parametrize("committed", [True, False])
def test_a_chain_goes_round_only_where_it_does(tmp_path: Path, committed: bool) -> None:
    prod = promoted("dev")
    before: Files = {"dev": environment("dev", promotion={"from": "prod"}), "prod": prod}
    made = reported(tmp_path / "project", before, {"dev": DEV, "prod": prod}, committed=committed)
    assert [note.path for note in made["prod"].invalid.before] == ["promotion.from"]
    assert made["prod"].invalid.after == ()


@pytest.mark.parametrize("committed", [True, False])
def test_pools_of_the_origin_are_those_of_the_state(tmp_path: Path, committed: bool) -> None:
    prod = promoted("dev", keep=["pools.old"])
    named = edited(DEV, lambda data: data["pools"][1].update(name="old"))
    made = reported(
        tmp_path / "project", {"dev": named, "prod": prod}, {"dev": DEV, "prod": prod}, committed=committed
    )
    assert made["prod"].invalid.before == ()
    assert [note.path for note in made["prod"].invalid.after] == ["promotion.keep[0]"]


def test_what_is_beside_changes_nothing_for_a_sound_file(tmp_path: Path) -> None:
    before = {"dev": DEV, "prod": promoted("dev")}
    after = {**before, "other": environment("other")}
    made = reported(tmp_path / "project", before, after, committed=False)
    assert {name: each.change for name, each in made.items()} == {
        "dev": "unchanged",
        "prod": "unchanged",
        "other": "added",
    }


def test_a_mistake_that_stays_is_no_change_whatever_comes_beside_it(tmp_path: Path) -> None:
    before = {"dev": DEV, "prod": promoted("stagin")}
    after = {**before, "other": environment("other")}
    prod = reported(tmp_path / "project", before, after, committed=False)["prod"]
    assert prod.change == "unchanged"
    assert [note.remediation for note in prod.invalid.after] == ["defined: dev, other"]


def test_a_folder_of_another_name_holds_files_by_themselves(tmp_path: Path) -> None:
    """As `validate` sees them."""
    state = dataclasses.replace(snapshot(tmp_path, "head", prod=promoted("gone")), folder="fleet")
    (prod,) = build(state, state, [], TODAY, 20).environments
    assert prod.invalid.after == ()
    assert not report(tmp_path, promoted("gone"), lambda data: None).valid
