"""`gpupool promote --check`: what is judged, and how the answer is printed."""

from __future__ import annotations

from typing import Any

from gpupool.cli.output import Format, print_error, print_json, print_line
from gpupool.cli.progress import progress
from gpupool.environment.spec.load import environment_names, find_environment
from gpupool.findings import Finding, UsageError
from gpupool.review.promote.check import Checked
from gpupool.review.promote.environment_file import EnvironmentFile
from gpupool.review.promote.history import JudgedPart
from gpupool.review.promote.repository import judged, read_file

_PLURAL = ("priorities", "policies")
"""Parts whose name is a plural."""


def answer(envs: list[str], base: str | None, format: Format) -> bool:
    """Check, print, and say whether nothing is ahead. Raises UsageError, SpecError."""
    paths = [find_environment(env) for env in envs or environment_names()]
    if not paths:
        raise UsageError("no environments here; run this command in a project with environments")
    with progress("promotion"):
        sides = {path: read_file(path) for path in paths}
        found = [
            (environment_file, one)
            for path, environment_file in sides.items()
            for one in judged(path, environment_file.environment, base)
        ]
    passed = all(checked.passed for _, checked in found)
    if format == "json":
        print_json({"passed": passed, "environments": [_as_dict(checked) for _, checked in found]})
        return passed
    for environment_file, checked in found:
        _print(environment_file, checked)
    chained = [environment_file for environment_file, _ in found]
    for environment_file in sides.values():
        if environment_file not in chained and (envs or not chained):
            print_line(f"{environment_file.name}: has no promotion section")
    return passed


def _print(environment_file: EnvironmentFile, checked: Checked) -> None:
    if checked.gate:
        remediation = (
            f"restore promotion: {{from: {checked.origin}}}, or remove it in a separate pull request that "
            "changes nothing else of this environment"
        )
        print_error(str(environment_file.loaded.source.finding(("promotion",), checked.gate, remediation)))
    for standing in checked.ahead:
        finding = _finding(environment_file, checked, standing)
        if standing in checked.failing:
            print_error(str(finding))
        else:
            print_line(f"{finding} (not by this change)")
    for notice in checked.notices:
        print_line(f"{checked.environment}: note: {notice}")
    behind = [one for one in checked.standings if one.status == "behind"]
    for one in behind:
        verb = "are" if one.part in _PLURAL else "is"
        print_line(
            f"{checked.environment}: {one.part} {verb} behind {checked.origin}, as of {one.since or 'never'}"
        )
    if checked.passed:
        rest = f"; {len(behind)} of {len(checked.standings)} parts to promote" if behind else ""
        print_line(f"{checked.environment}: passed, not ahead of {checked.origin}{rest}")


def _finding(environment_file: EnvironmentFile, checked: Checked, standing: JudgedPart) -> Finding:
    """What is ahead, where it stands in the target's file."""
    section, _, name = standing.part.partition(".")
    items = [item.get("name") for item in environment_file.data.get(section) or ()] if name else []
    loc = (section, items.index(name)) if name in items else (section,)
    shown = [str(difference) for difference in standing.differences[:4]]
    shown += [f"{len(standing.differences) - 4} more"] if len(standing.differences) > 4 else []
    origin, target = checked.origin, checked.environment
    verb = "are" if standing.part in _PLURAL else "is"
    message = f"{standing.part} {verb} ahead of {origin}, which never had this: {'; '.join(shown)}"
    if standing in checked.failing and standing.part in checked.together:
        change = "change" if standing.part in _PLURAL else "changes"
        message = f"{standing.part} {change} in {origin} and {target} at once: {'; '.join(shown)}"
    remediation = (
        f"bring it to {origin} first, merge that, then run: gpupool promote {origin} {target}; or declare "
        "that it differs: promotion.keep, or temporarily promotion.exceptions"
    )
    return environment_file.loaded.source.finding(loc, message, remediation)


def _as_dict(checked: Checked) -> dict[str, Any]:
    return {
        "environment": checked.environment,
        "from": checked.origin,
        "passed": checked.passed,
        "gate": checked.gate,
        "parts": [
            {
                "part": standing.part,
                "status": standing.status.value,
                "changed": standing.part not in checked.unchanged,
                "since": standing.since,
                "differences": [
                    {"path": each.path, "source": each.source, "target": each.target}
                    for each in standing.differences
                ],
            }
            for standing in checked.standings
        ],
        "notices": list(checked.notices),
    }
