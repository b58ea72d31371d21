"""`gpupool promote --check`: files and Git history for `promotion.check`, and its answer in words."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cli.output import Format, print_error, print_json
from cli.policy_progress import patient_progress

if TYPE_CHECKING:
    from cli.git_history import History
    from gpupool.findings import Finding
    from gpupool.spec import Environment
    from promotion.check import Checked
    from promotion.history import Standing
    from promotion.side import Side

_SHALLOW = "this clone is shallow; fetch all of it (actions/checkout: fetch-depth: 0, GitLab: GIT_DEPTH: 0)"


def origins(folder: Path) -> dict[str, str | None]:
    """Every environment of `folder` with the one that its changes come from. What can't be read has none."""
    from gpupool.findings import SpecError

    found: dict[str, str | None] = {}
    for path in sorted(folder.glob("*.yaml")):
        try:
            given = _side(path).environment.promotion
        except SpecError:
            continue
        found[path.stem] = given.from_ if given else None
    return found


def answer(envs: list[str], base: str | None, format: Format) -> bool:
    """Check, print, and say whether nothing is ahead. Raises UsageError, SpecError."""
    from gpupool.findings import UsageError
    from gpupool.load import environment_names, find_environment

    paths = [find_environment(env) for env in envs or environment_names()]
    if not paths:
        raise UsageError("no environments here; run this in a project that has some")
    with patient_progress("promotion"):
        sides = {path: _side(path) for path in paths}
        chained = {path: side for path, side in sides.items() if side.environment.promotion}
        found = {path: check_one(path, side.environment, base) for path, side in chained.items()}
    fine = not any(checked.failing for checked in found.values())
    if format is Format.json:
        print_json({"fine": fine, "environments": [_as_dict(checked) for checked in found.values()]})
        return fine
    for path, checked in found.items():
        _print(sides[path], checked)
    for path, side in sides.items():
        if path not in chained and (envs or not chained):
            print(f"{side.name}: says nothing of promotion")
    return fine


def check_one(path: Path, target: Environment, base: str | None) -> Checked:
    """Judge the environment at `path` by its source's file, now and in the history of HEAD, or of `base`."""
    from datetime import date

    from cli.git_history import History, NoHistoryError
    from gpupool.findings import GpupoolError, UsageError
    from promotion.check import check

    origin = path.parent / f"{_origin(target)}.yaml"
    try:
        history: History | None = History(path.parent)
    except NoHistoryError as error:
        if base:
            raise UsageError(f"--base {base}: {error}") from error
        history = None
    commit = history.commit(base or "HEAD") if history else ""
    content = history.content(history.fork(commit), path) if history and base else None
    before = _parsed(path.name, content)
    # Nothing runs yet in an environment that is new, so it may come as its source is in the same change.
    states = _states(history, commit, origin, with_file=content is None)
    proposed = _side(origin).environment if base else None
    checked = check(target, before, proposed, states, date.today())
    if checked.failing and history and history.shallow:
        named = ", ".join(one.part for one in checked.failing)
        raise GpupoolError(f"{target.metadata.name}: {named} may be ahead, but {_SHALLOW}")
    return checked


def hold_source(path: Path, source: Environment) -> list[str]:
    """Notes on a source that is to be promoted. Raises GpupoolError where it is ahead of its own source."""
    from cli.git_history import History, NoHistoryError
    from gpupool.findings import GpupoolError

    if source.promotion is None:
        return []
    checked = check_one(path, source, None)
    if not checked.ahead:
        return []
    name, origin = source.metadata.name, checked.origin
    named = ", ".join(one.part for one in checked.ahead)
    try:
        History(path.parent)
    except NoHistoryError:
        return [f"{name} differs from {origin} in {named}; without Git nobody can tell which is ahead"]
    raise GpupoolError(
        f"{name} is ahead of {origin}, which never had its {named}; promote {origin} first, or say --ahead"
    )


def _origin(target: Environment) -> str:
    from gpupool.findings import GpupoolError

    if target.promotion is None or target.promotion.from_ is None:
        name = target.metadata.name
        raise GpupoolError(f"{name}: promotion does not say where changes come from; write promotion.from")
    return target.promotion.from_


def _states(
    history: History | None, commit: str, path: Path, with_file: bool
) -> Iterator[tuple[str, Environment]]:
    """The source's states that count, newest first; versions that could not be used then are left out."""
    if with_file:
        yield "the file as it is", _side(path).environment
    for version in history.versions(commit, path) if history else ():
        environment = _parsed(path.name, version.content)
        if environment is not None:
            yield version.label, environment


def _side(path: Path) -> Side:
    from gpupool.findings import GpupoolError
    from gpupool.yaml_source import display_path
    from promotion.side import read_side

    if not path.is_file():
        raise GpupoolError(f"{display_path(path)}: no such file; promotion.from names environments beside it")
    return read_side(display_path(path), path.read_bytes())


def _parsed(name: str, content: bytes | None) -> Environment | None:
    from gpupool.findings import SpecError
    from promotion.side import read_side

    try:
        return read_side(name, content).environment if content is not None else None
    except SpecError:
        return None


def _print(side: Side, checked: Checked) -> None:
    for standing in checked.ahead:
        finding = _finding(side, checked, standing)
        if standing in checked.failing:
            print_error(str(finding))
        else:
            print(f"{finding} (not by this change)")
    for notice in checked.notices:
        print(f"{checked.environment}: note: {notice}")
    behind = [one for one in checked.standings if one.status == "behind"]
    for one in behind:
        print(f"{checked.environment}: {one.part} is behind {checked.origin}, as of {one.since or 'never'}")
    if not checked.failing:
        rest = f"; {len(behind)} of {len(checked.standings)} parts to promote" if behind else ""
        print(f"{checked.environment}: fine, nothing that {checked.origin} never had{rest}")


def _finding(side: Side, checked: Checked, standing: Standing) -> Finding:
    """What is ahead, where it stands in the target's file."""
    section, _, name = standing.part.partition(".")
    items = [item.get("name") for item in side.data.get(section) or ()] if name else []
    loc = (section, items.index(name)) if name in items else (section,)
    shown = [str(one) for one in standing.differences[:4]]
    shown += [f"{len(standing.differences) - 4} more"] if len(standing.differences) > 4 else []
    origin, target = checked.origin, checked.environment
    message = f"{standing.part} is ahead of {origin}, which never had this: {'; '.join(shown)}"
    if standing in checked.failing and standing.part in checked.together:
        message = f"{standing.part} changes in {origin} and {target} at once: {'; '.join(shown)}"
    hint = (
        f"bring it to {origin} first, merge that, then run: gpupool promote {origin} {target}; or say that "
        "it is meant to differ: promotion.keep, or promotion.exceptions for a while"
    )
    return side.loaded.source.finding(loc, message, hint)


def _as_dict(checked: Checked) -> dict[str, Any]:
    return {
        "environment": checked.environment,
        "from": checked.origin,
        "fine": not checked.failing,
        "parts": [
            {
                "part": one.part,
                "status": one.status.value,
                "changed": one.part not in checked.unchanged,
                "since": one.since,
                "differences": [
                    {"path": each.path, "source": each.source, "target": each.target}
                    for each in one.differences
                ],
            }
            for one in checked.standings
        ],
        "notices": list(checked.notices),
    }
