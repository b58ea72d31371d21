"""`gpupool promote`: promotes changes from one environment to the next, and checks that no environment is
skipped.

Reads and writes files and prints; `gpupool.review.promote` decides what is promoted. The check is in
`gpupool.cli.promote_check`.
"""

from __future__ import annotations

import sys
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpupool.cli.output import FormatOption, print_error, print_json, print_line
from gpupool.findings import GpupoolError, SpecError, UsageError
from gpupool.findings.terminal import BOLD, CYAN, GREEN, PLAIN, RED

if TYPE_CHECKING:
    from gpupool.review.promote.environment_file import EnvironmentFile
    from gpupool.review.promote.merge import Promoted, PromotionOptions


def promote(
    envs: Annotated[
        list[str] | None,
        typer.Argument(metavar="SOURCE TARGET | [ENV]...", help="With --check; default: all environments."),
    ] = None,
    write: Annotated[
        bool, typer.Option("--write/--dry-run", help="Write TARGET's file; default: show the diff.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="For CI: exit 1 if an environment is ahead of its source.")
    ] = False,
    base: Annotated[
        str | None,
        typer.Option("--base", metavar="REF", help="With --check: judge changes since REF only."),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="POOL", help="Only this pool, or section. Repeatable."),
    ] = None,
    nodes_max: Annotated[
        int | None, typer.Option("--max", min=1, help="nodes.max of new pools; default: SOURCE's.")
    ] = None,
    max_gpus: Annotated[
        int | None,
        typer.Option("--max-gpus", min=1, help="nodes.maxGpus of new pools; default: SOURCE's."),
    ] = None,
    allow_delete: Annotated[
        bool, typer.Option("--allow-delete", help="Delete pools and priorities that SOURCE does not have.")
    ] = False,
    skip: Annotated[bool, typer.Option("--skip", help="Skip environments in between.")] = False,
    ahead: Annotated[
        bool, typer.Option("--ahead", help="Promote even if SOURCE is ahead of its own source.")
    ] = False,
    format: FormatOption = "text",
) -> None:
    """Promote an environment's changes to the next one's file, except for fields that are meant to differ.

    Sharing, labels, taints, priorities, policies, queue settings and versions are promoted. Sizes, machines,
    prices, cluster names and the fields in `promotion.keep` stay (docs/promotion.md). Shows the diff; writes
    with --write, and only if the result is valid.

    Example: gpupool promote dev staging --write
    """
    if check:
        if write or only or nodes_max or max_gpus or allow_delete or skip or ahead:
            raise UsageError("--check takes only --base and --format")
        from gpupool.cli.promote_check import answer

        if not answer(envs or [], base, format):
            raise typer.Exit(1)
        return
    named = envs or []
    if len(named) != 2:
        raise UsageError("name two environments: gpupool promote SOURCE TARGET, or use --check")
    if base:
        raise UsageError("--base requires --check")
    from gpupool.environment.spec.load import find_environment
    from gpupool.environment.spec.yaml_source import display_path
    from gpupool.review.promote.chain import Chain
    from gpupool.review.promote.merge import PromotionOptions
    from gpupool.review.promote.merge import promote as merge
    from gpupool.review.promote.repository import hold_source, origins, read_file
    from gpupool.review.promote.rules import rules_of

    sizes = {key: size for key, size in (("max", nodes_max), ("maxGpus", max_gpus)) if size is not None}
    wish = PromotionOptions(frozenset(only or ()), allow_delete, sizes)
    paths = [find_environment(env) for env in named]
    if paths[0].resolve() == paths[1].resolve():
        raise UsageError(f"name two different environments; {named[0]} and {named[1]} are one file")
    source, target = map(read_file, paths)
    if not skip:
        Chain(origins(paths[1].parent)).hold(source.name, target.name)
    _validate(paths[0], source.text)
    _known_parts(wish, source, target)
    notes = [] if ahead else hold_source(paths[0], source.environment)
    rules = rules_of(target.environment.promotion, date.today())
    promoted = merge(source, target, rules, wish)
    if format == "text":
        _print_diff(display_path(paths[1]), target.text, promoted.text)
    try:
        _validate(paths[1], promoted.text)
    except SpecError:
        print_error(f"{target.name} would not be valid:")
        raise
    notes += _notes(source, target, promoted)
    changed = promoted.text != target.text
    if write and changed:
        _write(paths[1], promoted.text)
    if format == "json":
        print_json(_as_dict(source, target, promoted, changed and write, notes))
        return
    for note in notes:
        print_error(f"note: {note}")
    _print_summary(source, target, promoted, write)


def _validate(path: Path, text: str) -> None:
    """Raises SpecError where `text`, as the file at `path`, is not a valid environment."""
    from gpupool.environment.plan.resolve import resolve
    from gpupool.environment.spec.load import check_shape
    from gpupool.environment.spec.yaml_source import display_path, parse_source

    resolve(check_shape(parse_source(display_path(path), text.encode())))


def _known_parts(wish: PromotionOptions, source: EnvironmentFile, target: EnvironmentFile) -> None:
    from gpupool.environment.spec.promotion import SECTIONS

    pools = {
        pool.name for environment_file in (source, target) for pool in environment_file.environment.pools
    }
    for name in sorted(wish.only - pools - set(SECTIONS)):
        known = ", ".join([*sorted(pools), *SECTIONS])
        raise UsageError(f"--only {name}: neither a pool nor a section; use one of: {known}")


def _write(path: Path, text: str) -> None:
    """Write as a whole or not at all, with the byte order mark that was there."""
    from gpupool.environment.spec.yaml_source import MAX_BYTES
    from vapcheck.reading import read_file

    mark = b"\xef\xbb\xbf" if read_file(path, MAX_BYTES).startswith(b"\xef\xbb\xbf") else b""
    beside = path.with_name(f".{path.name}.new")
    try:
        beside.write_bytes(mark + text.encode())
        beside.chmod(path.stat().st_mode & 0o7777)
        beside.replace(path.resolve())
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise GpupoolError(f"{path}: {error.strerror}; make it writable") from error


def _notes(source: EnvironmentFile, target: EnvironmentFile, promoted: Promoted) -> list[str]:
    notes = [f"{name} is new in {target.name}: check its sizes" for name in promoted.new]
    for path in promoted.left:
        section, name = path.split(".", 1)
        notes.append(
            f"{name} is not in {source.name}; use --allow-delete to remove it, or "
            f"promotion.keep: [{section}.{name}] to keep it"
        )
    return notes


def _print_diff(name: str, old: str, new: str) -> None:
    from difflib import unified_diff

    colours = {"+": GREEN, "-": RED, "@": CYAN} if sys.stdout.isatty() else {}
    lines = unified_diff(old.splitlines(), new.splitlines(), f"a/{name}", f"b/{name}", lineterm="")
    for number, line in enumerate(lines):
        colour = (BOLD if sys.stdout.isatty() else "") if number < 2 else colours.get(line[:1], "")
        print_line(f"{colour}{line}{PLAIN}" if colour else line)


def _print_summary(source: EnvironmentFile, target: EnvironmentFile, promoted: Promoted, write: bool) -> None:
    count = len(promoted.changes)
    if not count:
        print(f"{target.name}: nothing to promote: it equals {source.name} except for what stays")
        return
    fields = f"{count} change{'s' if count != 1 else ''} from {source.name}"
    if write:
        print(f"\n{target.name}: {fields} written; review it with: gpupool report --base HEAD")
    else:
        print(f"\n{target.name}: {fields}; use --write to write them")


def _as_dict(
    source: EnvironmentFile, target: EnvironmentFile, promoted: Promoted, written: bool, notes: list[str]
) -> dict[str, Any]:
    return {
        "source": source.name,
        "target": target.name,
        "written": written,
        "changes": [
            {"part": change.part, "path": change.path, "from": change.target, "to": change.source}
            for change in promoted.changes
        ],
        "new": list(promoted.new),
        "left": list(promoted.left),
        "notes": notes,
        "text": promoted.text,
    }
