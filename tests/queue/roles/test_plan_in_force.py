"""A process and its environment file: what is wrong with it is known, and by which Plan the queue goes on."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gpupool.queue.plan_source import AGAIN, DIFFERS, PlanSource
from gpupool.queue.roles.plan_in_force import Following
from gpupool.queue.store.database import Database
from tests.queue.acting import As
from tests.queue.roles.running import LOCAL, opened

TEXT = LOCAL.read_text()
CHANGED = TEXT.replace("weight: 2", "weight: 7")
BROKEN = TEXT.replace("weight: 2", "weight: heavy")


@dataclass
class Clock:
    at: datetime = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.at


class Read(PlanSource):
    """A source with a clock of its own, whose steps take a second each."""

    def __init__(self, file: Path) -> None:
        self.clock = Clock()
        super().__init__(file, self.clock)

    def step(self, seconds: float = 1) -> str | None:
        """Why the file is refused after another look; None where it is not."""
        self.clock.at += timedelta(seconds=seconds)
        self.refresh()
        refused = self.state().refused
        return refused.why if refused else None

    def weights(self) -> set[float]:
        return {tenant.weight for tenant in self.plan().tenants}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "local.yaml"
    path.write_text(TEXT)
    return path


def half(file: Path) -> None:
    file.write_text(CHANGED[: len(CHANGED) // 2])


def deleted(file: Path) -> None:
    file.unlink()


def a_directory(file: Path) -> None:
    file.unlink()
    file.mkdir()


def no_text(file: Path) -> None:
    file.write_bytes(b"\xff\xfe\x00\x01")


def deep(file: Path) -> None:
    file.write_text("a: " + "[" * 50_000)


def wrong(file: Path) -> None:
    file.write_text(BROKEN)


@pytest.mark.parametrize("breaks", [half, deleted, a_directory, no_text, deep, wrong])
def test_a_file_that_is_refused_is_said_until_it_is_right_again(
    file: Path, breaks: Callable[[Path], None]
) -> None:
    source = Read(file)
    before, read_at = source.current.hash, source.clock.at
    assert source.step() is None
    breaks(file)
    since = source.clock.at + timedelta(seconds=1)
    why = source.step()
    assert why is not None
    assert str(file) in why
    assert source.current.hash == before, "the queue goes on by the Plan it has"
    assert source.step() == why
    state = source.state()
    assert state.refused is not None
    assert (state.refused.since, state.since) == (since, read_at)
    (notice,) = state.notices(whole=True)
    assert why in notice
    assert before in notice
    assert "since 2026-11-18 12:00:02 UTC" in notice
    (brief,) = state.notices(whole=False)
    assert why not in brief
    assert before in brief
    if file.is_dir():
        file.rmdir()
    file.write_text(CHANGED)
    assert source.step() is None
    assert source.weights() == {7.0, 1.0}
    assert source.state().notices(whole=True) == ()
    assert source.state().since == source.clock.at


def test_the_place_of_what_is_wrong_is_named(file: Path) -> None:
    source = Read(file)
    file.write_text(BROKEN)
    why = source.step() or ""
    line = BROKEN[: BROKEN.index("heavy")].count("\n") + 1
    assert re.search(rf"local\.yaml:{line}:\d+: ", why), why
    file.write_text(BROKEN.replace("gpu: t4", "gpu: t5"))
    assert "(and 1 more)" in (source.step() or "")


def test_a_swapped_link_as_a_config_map_has_it_is_followed(tmp_path: Path) -> None:
    """Kubelet mounts a ConfigMap as links to `..data`, which it swaps for each version."""
    versions = [TEXT, CHANGED, BROKEN, TEXT]
    for number, text in enumerate(versions):
        (tmp_path / f"..{number}").mkdir()
        (tmp_path / f"..{number}" / "local.yaml").write_text(text)
    data, file = tmp_path / "..data", tmp_path / "local.yaml"
    data.symlink_to("..0")
    file.symlink_to("..data/local.yaml")
    source = Read(file)
    seen = []
    for number in (1, 2, 3):
        (tmp_path / "..next").symlink_to(f"..{number}")
        os.replace(tmp_path / "..next", data)
        seen.append((source.step() is None, max(source.weights())))
    assert seen == [(True, 7.0), (False, 7.0), (True, 2.0)]


def test_a_file_that_is_put_back_as_it_was_is_right_again(file: Path) -> None:
    source, aside = Read(file), file.with_name("aside")
    file.rename(aside)
    assert source.step() is not None
    aside.rename(file)
    assert source.step() is None


def test_what_the_file_names_is_looked_at_again_while_it_is_refused(tmp_path: Path) -> None:
    policies, file = tmp_path / "policies", tmp_path / "environments" / "local.yaml"
    policies.mkdir()
    file.parent.mkdir()
    file.write_text(TEXT)
    source = Read(file)
    file.write_text(CHANGED.replace("  overrides:\n", "  overrides:\n    our-own: warn\n"))
    assert "our-own" in (source.step() or "")
    shipped = LOCAL.parents[1] / "policies" / "gpu-jobs-end.yaml"
    (policies / "own.yaml").write_text(shipped.read_text().replace("gpu-jobs-end", "our-own"))
    assert source.step() is not None, "not at every look"
    assert source.step(AGAIN.total_seconds()) is None
    assert max(source.weights()) == 7.0


def test_a_process_with_another_file_than_the_leaders_says_so_after_a_while(database, tmp_path: Path) -> None:
    file = tmp_path / "local.yaml"
    file.write_text(CHANGED)

    async def scenario(db: Database) -> None:
        source = Read(file)
        following = Following(As(db, "executor"), source)
        assert await following.step(), "the first Plan"
        await opened(db)
        assert not await following.step()
        assert source.state().leader is None, "it may not have read a change yet"
        source.clock.at += DIFFERS
        await following.step()
        (notice,) = source.state().notices(whole=True)
        assert source.current.hash in notice
        assert "opening, which leads" in notice
        (brief,) = source.state().notices(whole=False)
        assert "opening" not in brief
        file.write_text(TEXT)
        assert await following.step()
        assert source.state().notices(whole=True) == ()

    database(scenario)


def test_the_file_is_followed_while_the_database_is_away(database, file: Path) -> None:
    async def scenario(db: Database) -> None:
        source = Read(file)
        following = Following(db, source)
        await following.step()
        await db._pool.close()
        file.write_text(CHANGED)
        assert await following.step()
        assert max(source.weights()) == 7.0

    database(scenario)
