"""Environments that lie beside each other, with what Git knows of them, for
`gpupool.review.promote.check`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path

from gpupool.environment.spec.environment import Environment
from gpupool.environment.spec.yaml_source import MAX_BYTES, display_path
from gpupool.findings import GpupoolError, SpecError, UsageError
from gpupool.review.git import NoRepositoryError
from gpupool.review.promote.check import Checked, check, check_by_former_rules, lost_source
from gpupool.review.promote.environment_file import EnvironmentFile, read_environment_file
from gpupool.review.promote.git_history import History
from vapcheck import reading

_SHALLOW = (
    "this clone is shallow; fetch the full history (actions/checkout: fetch-depth: 0, GitLab: GIT_DEPTH: 0)"
)


def origins(folder: Path) -> dict[str, str | None]:
    """Every environment of `folder` with the one that its changes come from. What can't be read has none."""
    sources: dict[str, str | None] = {}
    for path in sorted(folder.glob("*.yaml")):
        try:
            promotion = read_file(path).environment.promotion
        except SpecError:
            continue
        sources[path.stem] = promotion.from_ if promotion else None
    return sources


def judged(path: Path, target: Environment, base: str | None) -> list[Checked]:
    """`target` by the rules that it had before the change under review, where that change modifies them, and
    by those that it has. Empty where neither says that changes come from somewhere."""
    try:
        history: History | None = History(path.parent)
    except NoRepositoryError as error:
        if base:
            raise UsageError(f"--base {base}: {error}") from error
        history = None
    commit = history.commit(base or "HEAD") if history else ""
    content = history.content(history.fork(commit), path) if history and base else None
    before = _parsed(path.name, content)
    judgements: list[Checked] = []
    former = lost_source(target, before)
    if before is not None and former:
        origin = path.parent / f"{former}.yaml"
        proposed = read_file(origin).environment if origin.is_file() else None
        states = _states(history, commit, origin, with_file=False)
        judgements.append(check_by_former_rules(target, before, proposed, states, date.today()))
    if target.promotion and (target.promotion.from_ or not former):
        origin = path.parent / f"{_origin(target)}.yaml"
        # Nothing runs yet in an environment that is new, so it may come as its source is in the same change.
        states = _states(history, commit, origin, with_file=content is None)
        proposed = read_file(origin).environment if base else None
        judgements.append(check(target, before, proposed, states, date.today()))
    failing = {standing.part: None for checked in judgements for standing in checked.failing}
    if failing and history and history.shallow:
        raise GpupoolError(f"{target.metadata.name}: {', '.join(failing)} may be ahead, but {_SHALLOW}")
    return judgements


def hold_source(path: Path, source: Environment) -> list[str]:
    """Notes on a source that is to be promoted. Raises GpupoolError where it is ahead of its own source."""
    if source.promotion is None:
        return []
    _origin(source)  # says what is wrong where it names none
    checked = judged(path, source, None)[-1]
    if not checked.ahead:
        return []
    name, origin = source.metadata.name, checked.origin
    named = ", ".join(standing.part for standing in checked.ahead)
    try:
        History(path.parent)
    except NoRepositoryError:
        return [f"{name} differs from {origin} in {named}; without Git, it is unknown which one is ahead"]
    raise GpupoolError(f"{name} is ahead of {origin} in {named}; promote {origin} first, or use --ahead")


def _origin(target: Environment) -> str:
    if target.promotion is None or target.promotion.from_ is None:
        name = target.metadata.name
        raise GpupoolError(f"{name}: promotion has no source; add promotion.from")
    return target.promotion.from_


def _states(
    history: History | None, commit: str, path: Path, with_file: bool
) -> Iterator[tuple[str, Environment]]:
    """The source's states that count, newest first; versions that could not be used then are left out."""
    if with_file:
        yield "the current file", read_file(path).environment
    for version in history.versions(commit, path) if history else ():
        environment = _parsed(path.name, version.content)
        if environment is not None:
            yield version.label, environment


def read_file(path: Path) -> EnvironmentFile:
    """The environment at `path`. Raises SpecError, and GpupoolError where there is no file."""
    if not path.is_file():
        raise GpupoolError(
            f"{display_path(path)}: no such file; promotion.from names an environment in the same folder"
        )
    try:
        raw = reading.read_file(path, MAX_BYTES)
    except OSError as error:
        raise GpupoolError(
            f"{display_path(path)}: can't be read: {error.strerror}; make it a readable file"
        ) from error
    return read_environment_file(display_path(path), raw)


def _parsed(name: str, content: bytes | None) -> Environment | None:
    try:
        return read_environment_file(name, content).environment if content is not None else None
    except SpecError:
        return None
