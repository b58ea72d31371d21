"""`gpupool convert FILE...`: existing GPU settings as an environment file, and a list of what was not
converted.

Arguments, reading, writing and printing only; `gpupool.adopt.convert` does the conversion.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpupool.cli.findings.outputs import FindingFormat, write_report
from gpupool.cli.output import FindingFormatOption
from gpupool.findings import FindingReport, GpupoolError, SpecError, UsageError
from gpupool.findings.terminal import BOLD, PLAIN

if TYPE_CHECKING:
    from gpupool.adopt.convert.convert import Conversion
    from gpupool.adopt.convert.documents import Document
    from gpupool.adopt.convert.leftovers import Leftover

_TITLES = {
    "todo": "to do manually",
    "wrong": "invalid in the input, not carried over",
    "assumed": "not in any input, so gpupool chose it",
    "left": "unchanged; the file has no field for it",
}
_SUFFIXES = (".yaml", ".yml", ".json")

OutputOption = Annotated[
    Path | None, typer.Option("--output", metavar="FILE", help="Write to this file instead of stdout.")
]
NameOption = Annotated[
    str | None, typer.Option("--name", help="Name of the environment; default: the output file's.")
]
ForceOption = Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")]
StrictOption = Annotated[bool, typer.Option("--strict", help="Exit 1 if anything is listed.")]
GpuOption = Annotated[
    list[str] | None,
    typer.Option("--gpu", metavar="[CONFIG=]KEY", help="GPU of a configuration that names none (or of all)."),
]
MaxOption = Annotated[int, typer.Option("--max", min=1, help="Maximum nodes of a pool without a limit.")]


def convert(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Files or folders; - for standard input.")
    ],
    output: OutputOption = None,
    name: NameOption = None,
    platform: Annotated[str | None, typer.Option("--platform", help="eks, static or local.")] = None,
    region: Annotated[str | None, typer.Option("--region", help="The cluster's region.")] = None,
    cluster: Annotated[str | None, typer.Option("--cluster", help="The cluster's name.")] = None,
    gpu: GpuOption = None,
    max: MaxOption = 1,
    force: ForceOption = False,
    strict: StrictOption = False,
    format: FindingFormatOption = "text",
) -> None:
    """Convert existing GPU settings into an environment file; list what can't be converted.

    Reads Karpenter's Provisioner, AWSNodeTemplate, NodePool, EC2NodeClass and NodeOverlay of every version,
    configurations of the NVIDIA device plugin and mig-parted (files or ConfigMaps), Helm values and the
    ClusterPolicy of the GPU Operator, and nodes, quotas and priorities. The file goes to stdout and the list
    to stderr. Every value of the input is in the file, derived from it, or in the list.

    Exit 0: written, and valid. 1: the file needs values filled in, a pool is left out, nothing could be read,
    or (--strict) something is listed. 2: usage error.

    Example: gpupool convert karpenter/ values.yaml --output environments/prod.yaml
    """
    from gpupool.adopt.convert.convert import convert as converted
    from gpupool.adopt.convert.draft import Choices

    chosen = Choices(
        name=environment_name(name, output),
        platform=_platform(platform),
        region=region,
        cluster=cluster,
        sources=tuple(files),
        max=max,
        gpus=chosen_gpus(gpu or []),
    )
    refuse_overwriting(output, force)
    documents = _read(files)
    finish(converted(documents, chosen), output, strict, format)


def environment_name(name: str | None, output: Path | None) -> str:
    """The environment's name: as given, or the output file's. Raises UsageError."""
    from gpupool.adopt.convert.spec_words import fits

    found = name if name is not None else output.stem if output else "converted"
    if not fits("name", found):
        raise UsageError(
            f"{found!r} is not a valid environment name; use lowercase letters, digits and hyphens"
        )
    if output is not None and output.stem != found:
        raise UsageError(f"{output} would contain environment {found!r}; use one name for both")
    return found


def _platform(platform: str | None) -> str | None:
    if platform not in (None, "eks", "static", "local"):
        raise UsageError(f"unknown platform {platform!r}; use eks, static or local")
    return platform


def chosen_gpus(given: Sequence[str]) -> dict[str, str]:
    """`["t4", "big=h200"]` as `{"": "t4", "big": "h200"}`. Raises UsageError for an unknown GPU."""
    from gpupool.environment.catalog.models import CatalogError
    from gpupool.environment.catalog.project import catalog_here

    found: dict[str, str] = {}
    for text in given:
        name, equals, key = text.rpartition("=")
        try:
            found[name if equals else ""] = catalog_here()[key].key
        except CatalogError as error:
            raise UsageError(str(error)) from None
    return found


def refuse_overwriting(output: Path | None, force: bool) -> None:
    """Raises UsageError where `output` is there already and may not be replaced."""
    if output is not None and output.exists() and not force:
        raise UsageError(f"{output} already exists; choose another name, or use --force to replace it")


def _read(files: Sequence[str]) -> list[Document]:
    """The documents of all files. Raises SpecError where one can't be read, and where there is none."""
    from gpupool.adopt.convert.documents import parse_documents, read_documents
    from gpupool.environment.spec.yaml_source import MAX_BYTES
    from vapcheck.reading import files_below

    documents: list[Document] = []
    findings = []
    for name in files:
        path = Path(name)
        in_folder = path.is_dir()
        try:
            paths = list(files_below(path, _SUFFIXES)) if in_folder else [path]
        except OSError as error:
            raise UsageError(f"{name}: can't be read: {error.strerror}; name the files") from error
        if not paths:
            raise UsageError(f"{name}: contains no YAML or JSON files; name files or another folder")
        for one in paths:
            if name == "-":
                read = parse_documents("-", sys.stdin.buffer.read(MAX_BYTES + 1))
            else:
                read = read_documents(one, streams=not in_folder)
            documents += read[0]
            findings += read[1]
    if findings:
        raise SpecError(findings)
    if not documents:
        raise GpupoolError(f"{', '.join(files)}: empty; name a file with Kubernetes objects or settings")
    return documents


def finish(result: Conversion, output: Path | None, strict: bool, format: FindingFormat) -> None:
    """Write the file, print the list, and leave with the right code."""
    if output is not None:
        _write(output, result.text)
    if format != "text":
        write_report(_report(result, output), format)
    else:
        if output is None:
            sys.stdout.write(result.text)
            sys.stdout.flush()
        print_leftovers(result.leftovers)
        sys.stderr.write(_summary(result, output) + "\n")
    if result.findings or result.left_out or not result.pools or (strict and result.leftovers):
        raise typer.Exit(1)


def _write(output: Path, text: str) -> None:
    """Write the file as a whole or not at all."""
    partial = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(text, encoding="utf-8")
        partial.replace(output)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise GpupoolError(f"{output}: {error.strerror}; choose a writable path") from error


def _report(result: Conversion, output: Path | None) -> FindingReport:
    return FindingReport(
        command="convert",
        findings=tuple(result.leftovers),
        summary=_summary(result, output).strip(),
        targets=(str(output),) if output else (),
        more={
            "output": str(output) if output else None,
            "environment": result.text,
            "valid": not result.findings,
            "platform": result.platform,
            "pools": list(result.pools),
            "values": result.counts,
            "leftOut": list(result.left_out),
        },
    )


def print_leftovers(leftovers: Sequence[Leftover]) -> None:
    """Print the list to stderr, by kind, each entry on a line."""
    bold, plain = (BOLD, PLAIN) if sys.stderr.isatty() else ("", "")
    for kind, title in _TITLES.items():
        entries = [entry for entry in leftovers if entry.category == kind]
        if entries:
            sys.stderr.write(f"\n{bold}{title} ({len(entries)}):{plain}\n")
            for entry in entries:
                sys.stderr.write(f"  {entry}\n")


def _summary(result: Conversion, output: Path | None) -> str:
    counts = result.counts
    pools = f"{len(result.pools)} pool{'s' if len(result.pools) != 1 else ''}"
    where = f"{output}: " if output else ""
    values = f"{counts['used']} values carried over, {counts['derived']} derived by gpupool"
    kept = f", {counts['cluster']} written by the cluster itself" if counts["cluster"] else ""
    text = f"\n{where}{pools}; {values}{kept}, {counts['listed']} left"
    if result.left_out:
        text += f"; left out: {len(result.left_out)}"
    return text + ("; the file is not valid yet: see the list of things to do" if result.findings else "")
