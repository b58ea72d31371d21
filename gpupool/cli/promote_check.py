"""`gpupool promote --check`: files and Git history for `gpupool.promote.check`, and its printed answer."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

from gpupool.cli.git_history import History
from gpupool.cli.output import Format, print_error, print_json
from gpupool.cli.progress import progress
from gpupool.findings import Finding, GpupoolError, SpecError, UsageError
from gpupool.git import NoRepositoryError
from gpupool.promote.check import Checked, check, check_by_former_rules, lost_source
from gpupool.promote.environment_file import EnvironmentFile, read_environment_file
from gpupool.promote.history import Standing
from gpupool.spec.environment import Environment
from gpupool.spec.load import environment_names, find_environment
from gpupool.spec.yaml_source import display_path

_SHALLOW = "this clone is shallow; fetch all of it (actions/checkout: fetch-depth: 0, GitLab: GIT_DEPTH: 0)"


_PLURAL = ("priorities", "policies")
"""Parts whose name is a plural."""


def origins(folder: Path) -> dict[str, str | None]:
    """Every environment of `folder` with the one that its changes come from. What can't be read has none."""
    found: dict[str, str | None] = {}
    for path in sorted(folder.glob("*.yaml")):
        try:
            given = read_file(path).environment.promotion
        except SpecError:
            continue
        found[path.stem] = given.from_ if given else None
    return found


def answer(envs: list[str], base: str | None, format: Format) -> bool:
    """Check, print, and say whether nothing is ahead. Raises UsageError, SpecError."""
    paths = [find_environment(env) for env in envs or environment_names()]
    if not paths:
        raise UsageError("no environments here; run this in a project that has some")
    with progress("promotion"):
        sides = {path: read_file(path) for path in paths}
        found = [
            (environment_file, one)
            for path, environment_file in sides.items()
            for one in _judged(path, environment_file.environment, base)
        ]
    fine = all(checked.fine for _, checked in found)
    if format == "json":
        print_json({"fine": fine, "environments": [_as_dict(checked) for _, checked in found]})
        return fine
    for environment_file, checked in found:
        _print(environment_file, checked)
    chained = [environment_file for environment_file, _ in found]
    for environment_file in sides.values():
        if environment_file not in chained and (envs or not chained):
            print(f"{environment_file.name}: says nothing of promotion")
    return fine


def _judged(path: Path, target: Environment, base: str | None) -> list[Checked]:
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
    found: list[Checked] = []
    former = lost_source(target, before)
    if before is not None and former:
        origin = path.parent / f"{former}.yaml"
        proposed = read_file(origin).environment if origin.is_file() else None
        states = _states(history, commit, origin, with_file=False)
        found.append(check_by_former_rules(target, before, proposed, states, date.today()))
    if target.promotion and (target.promotion.from_ or not former):
        origin = path.parent / f"{_origin(target)}.yaml"
        # Nothing runs yet in an environment that is new, so it may come as its source is in the same change.
        states = _states(history, commit, origin, with_file=content is None)
        proposed = read_file(origin).environment if base else None
        found.append(check(target, before, proposed, states, date.today()))
    failing = {one.part: None for checked in found for one in checked.failing}
    if failing and history and history.shallow:
        raise GpupoolError(f"{target.metadata.name}: {', '.join(failing)} may be ahead, but {_SHALLOW}")
    return found


def hold_source(path: Path, source: Environment) -> list[str]:
    """Notes on a source that is to be promoted. Raises GpupoolError where it is ahead of its own source."""
    if source.promotion is None:
        return []
    _origin(source)  # says what is wrong where it names none
    checked = _judged(path, source, None)[-1]
    if not checked.ahead:
        return []
    name, origin = source.metadata.name, checked.origin
    named = ", ".join(one.part for one in checked.ahead)
    try:
        History(path.parent)
    except NoRepositoryError:
        return [f"{name} differs from {origin} in {named}; without Git it is unknown which is ahead"]
    raise GpupoolError(
        f"{name} is ahead of {origin}, which never had its {named}; promote {origin} first, or use --ahead"
    )


def _origin(target: Environment) -> str:
    if target.promotion is None or target.promotion.from_ is None:
        name = target.metadata.name
        raise GpupoolError(f"{name}: promotion does not say where changes come from; write promotion.from")
    return target.promotion.from_


def _states(
    history: History | None, commit: str, path: Path, with_file: bool
) -> Iterator[tuple[str, Environment]]:
    """The source's states that count, newest first; versions that could not be used then are left out."""
    if with_file:
        yield "the file as it is", read_file(path).environment
    for version in history.versions(commit, path) if history else ():
        environment = _parsed(path.name, version.content)
        if environment is not None:
            yield version.label, environment


def read_file(path: Path) -> EnvironmentFile:
    """The environment at `path`. Raises SpecError, and GpupoolError where there is no file."""
    if not path.is_file():
        raise GpupoolError(f"{display_path(path)}: no such file; promotion.from names environments beside it")
    return read_environment_file(display_path(path), path.read_bytes())


def _parsed(name: str, content: bytes | None) -> Environment | None:
    try:
        return read_environment_file(name, content).environment if content is not None else None
    except SpecError:
        return None


def _print(environment_file: EnvironmentFile, checked: Checked) -> None:
    if checked.gate:
        hint = (
            f"write promotion: {{from: {checked.origin}}} again; or remove it in a pull request of its own, "
            "in which nothing else of this environment changes"
        )
        print_error(str(environment_file.loaded.source.finding(("promotion",), checked.gate, hint)))
    for standing in checked.ahead:
        finding = _finding(environment_file, checked, standing)
        if standing in checked.failing:
            print_error(str(finding))
        else:
            print(f"{finding} (not by this change)")
    for notice in checked.notices:
        print(f"{checked.environment}: note: {notice}")
    behind = [one for one in checked.standings if one.status == "behind"]
    for one in behind:
        verb = "are" if one.part in _PLURAL else "is"
        print(
            f"{checked.environment}: {one.part} {verb} behind {checked.origin}, as of {one.since or 'never'}"
        )
    if checked.fine:
        rest = f"; {len(behind)} of {len(checked.standings)} parts to promote" if behind else ""
        print(f"{checked.environment}: fine, nothing that {checked.origin} never had{rest}")


def _finding(environment_file: EnvironmentFile, checked: Checked, standing: Standing) -> Finding:
    """What is ahead, where it stands in the target's file."""
    section, _, name = standing.part.partition(".")
    items = [item.get("name") for item in environment_file.data.get(section) or ()] if name else []
    loc = (section, items.index(name)) if name in items else (section,)
    shown = [str(one) for one in standing.differences[:4]]
    shown += [f"{len(standing.differences) - 4} more"] if len(standing.differences) > 4 else []
    origin, target = checked.origin, checked.environment
    verb = "are" if standing.part in _PLURAL else "is"
    message = f"{standing.part} {verb} ahead of {origin}, which never had this: {'; '.join(shown)}"
    if standing in checked.failing and standing.part in checked.together:
        change = "change" if standing.part in _PLURAL else "changes"
        message = f"{standing.part} {change} in {origin} and {target} at once: {'; '.join(shown)}"
    hint = (
        f"bring it to {origin} first, merge that, then run: gpupool promote {origin} {target}; or say that "
        "it is meant to differ: promotion.keep, or promotion.exceptions for a while"
    )
    return environment_file.loaded.source.finding(loc, message, hint)


def _as_dict(checked: Checked) -> dict[str, Any]:
    return {
        "environment": checked.environment,
        "from": checked.origin,
        "fine": checked.fine,
        "gate": checked.gate,
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
