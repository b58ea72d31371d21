"""`gpupool preview | up | refresh | destroy ENV`: what Pulumi does to a cluster, as tables and JSON.

Thin: the work is in `gpupool.infra.stack`, which is imported inside the verbs so that the others start fast.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpupool.cli.findings.json import finding_json
from gpupool.cli.output import (
    EnvArgument,
    Format,
    FormatOption,
    print_error,
    print_json,
    print_line,
    print_table,
)
from gpupool.cli.progress import progress

if TYPE_CHECKING:
    from gpupool.infra.stack_events import ObjectChange
    from gpupool.infra.stack_result import Result

YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")]
AllowOption = Annotated[
    list[str] | None,
    typer.Option("--allow-delete", metavar="KIND/NAME", help="Allow deletion of this protected object."),
]
DespiteOption = Annotated[
    bool, typer.Option("--despite-gitops", help="Continue even if Argo CD or Flux delivers the environment.")
]

_MARKS = {"create": "+", "update": "~", "replace": "+-", "delete": "-"}
_PAST = {"create": "created", "update": "updated", "replace": "replaced", "delete": "deleted"}


def preview(
    env: EnvArgument,
    output: FormatOption = "text",
    allow_delete: AllowOption = None,
) -> None:
    """Show what `up` would change, with a dry run on the API server; change nothing.

    Example: gpupool preview prod
    """
    from gpupool.infra import stack

    desired, allowed = stack.read(env), allow_delete or ()
    _show(_run(f"preview {env}", lambda notify: stack.preview(desired, notify, allowed), output), output)


def up(
    env: EnvArgument,
    yes: YesOption = False,
    output: FormatOption = "text",
    allow_delete: AllowOption = None,
    despite_gitops: DespiteOption = False,
) -> None:
    """Apply the environment file to the cluster. A second run changes nothing.

    Without --yes, asks before changes that delete or replace objects; without a terminal, refuses them.

    Example: gpupool up local
    """
    from gpupool.infra import gitops_refusal, stack

    allowed = allow_delete or ()
    desired = stack.read(env)
    if not yes:
        gitops_refusal.require_ours(desired.plan, despite_gitops)
        planned = _run(f"preview {env}", lambda notify: stack.preview(desired, notify, allowed), output)
        _consent(planned, output)
    result = _run(f"up {env}", lambda notify: stack.up(desired, allowed, notify, despite_gitops), output)
    _show(result, output)


def _consent(planned: Result, output: Format) -> None:
    """Ask about what would be deleted or replaced; refuse it without a terminal."""
    from gpupool.infra.recovery import ProtectedError
    from gpupool.infra.stack_result import StackError

    risky = [entry for entry in planned.objects if entry.op in ("delete", "replace")]
    if not risky:
        return
    asked = output == "text" and sys.stdin.isatty() and sys.stdout.isatty()
    if output == "text":
        _show(dataclasses.replace(planned, refused=None), output)
    if planned.refused:
        raise ProtectedError(planned.refused)
    if not asked:
        raise StackError(
            f"this deletes or replaces {len(risky)} object{'s' if len(risky) != 1 else ''} "
            f"({', '.join(str(entry) for entry in risky[:5])}{', ...' if len(risky) > 5 else ''}), "
            "and there is no terminal to ask for confirmation; nothing was changed. Use --yes to confirm"
        )
    typer.confirm("Proceed?", abort=True)


def refresh(env: EnvArgument, output: FormatOption = "text") -> None:
    """Show and record what others changed or deleted in the cluster, so that `up` restores it.

    Example: gpupool refresh local
    """
    from gpupool.infra import stack

    _show(_run(f"refresh {env}", lambda notify: stack.refresh(stack.read(env), notify), output), output)


def destroy(
    env: EnvArgument,
    yes: YesOption = False,
    output: FormatOption = "text",
    despite_gitops: DespiteOption = False,
) -> None:
    """Delete everything that `up` created, including protected namespaces; existing nodes are released.

    Example: gpupool destroy local --yes
    """
    from gpupool.infra import stack

    if not yes:
        if not sys.stdin.isatty():
            print_error(f"destroy deletes everything of {env}; use --yes to confirm in scripts")
            raise typer.Exit(2)
        typer.confirm(
            f"Delete everything that belongs to {env}, including the tenants' namespaces?", abort=True
        )
    _show(_run(f"destroy {env}", lambda notify: stack.destroy(env, notify, despite_gitops), output), output)


def _run(title: str, work: Callable[[Callable[[str], None]], Result], output: Format) -> Result:
    """Do it with progress shown; print what went wrong and leave with the right code."""
    from gpupool.infra.stack_result import StackError

    try:
        with progress(title) as notify:
            return work(notify)
    except StackError as error:
        if error.result is not None:
            _show_failed(error.result, output)
        raise


def _show_failed(result: Result, output: Format) -> None:
    """What a run got done before it failed; the error itself is printed by `main`."""
    if output == "json":
        print_json(_as_json(result))
        return
    _table([entry for entry in result.objects if entry.done or entry.error])
    _notes(result)


def _show(result: Result, output: Format) -> None:
    if output == "json":
        print_json(_as_json(result))
        return
    _table(result.objects)
    _notes(result)
    print_line(_summary(result))


def _as_json(result: Result) -> dict[str, Any]:
    return {**result.as_dict(), "findings": [finding_json(finding) for finding in result.findings]}


def _table(objects: Sequence[ObjectChange]) -> None:
    """One row per field, the object named in the first of its rows."""
    rows: list[tuple[str, str, str, str]] = []
    for entry in objects:
        where = f"{entry.namespace}/{entry.name}" if entry.namespace else entry.name
        fields = [str(change) for change in entry.fields] or [""]
        mark = f"! {entry.op} failed" if entry.error else f"{_MARKS[entry.op]} {entry.op}"
        rows.append((mark, entry.kind, where, fields[0]))
        rows += [("", "", "", text) for text in fields[1:]]
    if rows:
        print_table(("", "kind", "name", "what changes"), rows, fit=True)


def _notes(result: Result) -> None:
    from gpupool.policy.gate import describe

    if result.refused:
        print_line(f"refused: {result.refused}")
    for finding in result.findings:
        print_line(describe(finding))
    for line in (*result.notes, *result.outcome.warnings):
        print_line(f"note: {line}")


def _summary(result: Result) -> str:
    counts = result.outcome.counts
    same = counts.pop("same", 0)
    if not counts:
        idle = {"refresh": "nothing has drifted", "destroy": "nothing to destroy"}
        text = idle.get(result.operation, "nothing changes")
    elif result.operation == "preview":
        text = ", ".join(f"{count} to {op}" for op, count in counts.items())
    elif result.operation == "refresh":
        text = ", ".join(f"{count} {_PAST[op]} by others" for op, count in counts.items())
        text += f"; fix with: gpupool up {result.environment}"
    else:
        text = ", ".join(f"{count} {_PAST[op]}" for op, count in counts.items())
    unchanged = f", {same} unchanged" if same else ""
    return f"{result.environment}: {text}{unchanged} ({result.seconds:.1f} s)"
