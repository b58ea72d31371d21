"""`gpupool mig`: checks whether and where a MIG layout fits on a GPU, and suggests layouts that fit.

Prints what `gpupool.environment.sharing` decides; decides nothing itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated

import typer

from gpupool.cli.output import Format, FormatOption, print_json, print_table
from gpupool.environment.catalog.models import CatalogError, GpuModel, Mig, mig_resource
from gpupool.environment.catalog.project import catalog_here
from gpupool.environment.sharing import MigSharing, Verdict, maximal_layouts, verdict
from gpupool.findings import UsageError


def mig(
    gpu: Annotated[str, typer.Argument(help="Key in the catalog, e.g. a100-80gb.", show_default=False)],
    profiles: Annotated[
        list[str] | None,
        typer.Argument(metavar="PROFILE=COUNT", help="Number of instances on each GPU.", show_default=False),
    ] = None,
    format: FormatOption = "text",
    variants: Annotated[
        bool, typer.Option("--variants", help="Also list layouts with +me, +gfx and -me profiles.")
    ] = False,
) -> None:
    """Place a MIG layout on a GPU, or say why it does not fit and suggest layouts that do.

    Without profiles: list every maximal layout, to which no instance can be added. JSON lists all of them;
    text omits those with profile variants unless --variants is given. Exit 0: it fits. 1: it does not fit. 2:
    usage error.

    Example: gpupool mig a100-80gb 3g.40gb=1 2g.20gb=2
    """
    try:
        model = catalog_here()[gpu]
        layout = parse_layout(profiles or [])
    except (CatalogError, ValueError) as error:
        raise UsageError(str(error)) from None
    if not profiles:
        _print_maximal(model, format, variants)
        raise typer.Exit(0 if model.mig else 1)
    found = verdict(model, layout)
    if format == "json":
        print_json(_verdict_json(model, found))
    else:
        _print_verdict(model, layout, found)
    raise typer.Exit(0 if found.fits else 1)


def parse_layout(pairs: list[str]) -> dict[str, int]:
    """`["3g.40gb=1"]` as `{"3g.40gb": 1}`. Raises ValueError for anything but PROFILE=COUNT, each profile
    once.
    """
    layout: dict[str, int] = {}
    for pair in pairs:
        name, equals, count = pair.partition("=")
        if not (name and equals) or not count.isdecimal() or not count.isascii() or int(count[:9]) < 1:
            raise ValueError(f"{pair!r} is not PROFILE=COUNT with a count of 1 or more; write 3g.40gb=1")
        if len(count) > 9:
            raise ValueError(f"{pair!r} is too many instances; a GPU has at most a few")
        if name in layout:
            raise ValueError(f"{name} is given twice; name each profile once")
        layout[name] = int(count)
    return layout


def _verdict_json(model: GpuModel, found: Verdict) -> dict[str, object]:
    return {
        "gpu": model.key,
        "fits": found.fits,
        "placement": [
            {"profile": placed.profile, "start": placed.start, "size": placed.size}
            for placed in found.placement
        ],
        "reason": found.reason,
        "nearest": [{"profiles": layout} for layout in found.nearest],
    }


def _print_maximal(model: GpuModel, format: Format, variants: bool) -> None:
    layouts = maximal_layouts(model)
    if format == "json":
        print_json({"gpu": model.key, "maximal": [{"profiles": layout} for layout in layouts]})
        return
    if model.mig is None:
        print(f"The {model.title} has no MIG.")
        return
    print(
        f"{model.title}: {model.mig.slots} memory slices, {model.mig.compute_slices} compute slices.\n"
        "Layouts to which no instance can be added:\n"
    )
    plain = [layout for layout in layouts if variants or not _has_variant(model.mig, layout)]
    print_table(
        ("layout", "memory slices", "compute slices"),
        [_layout_row(model.mig, layout) for layout in plain],
        right=("memory slices", "compute slices"),
    )
    if len(plain) < len(layouts):
        more = len(layouts) - len(plain)
        print(f"\n{more} more with profile variants (+me, +gfx, -me): add --variants.")
    _print_caveat(model.mig)


def _layout_row(mig: Mig, layout: Mapping[str, int]) -> tuple[str, str, str]:
    size = sum(mig.profile(name).size * count for name, count in layout.items())
    compute = sum(mig.profile(name).compute_slices * count for name, count in layout.items())
    return spell(layout), f"{size} of {mig.slots}", f"{compute} of {mig.compute_slices}"


def _has_variant(mig: Mig, layout: Mapping[str, int]) -> bool:
    return any(mig.profile(name).attribute for name in layout)


def _print_verdict(model: GpuModel, layout: Mapping[str, int], found: Verdict) -> None:
    if model.mig is None or not found.fits:
        print(f"{spell(layout)} does not fit on the {model.title}.\n{found.reason.rstrip('.?')}.")
        if found.nearest:
            print("\nNearest layouts that fit:")
            for nearest in found.nearest:
                print(f"  {spell(nearest)}")
        return
    print(f"{spell(layout)} fits on the {model.title}.\n")
    # Imported here, because start-up time is a figure that `make bench` holds.
    from gpupool.environment.drawings import characters

    print("\n".join(characters(model, MigSharing(layout))))
    print("\nEach GPU then offers:\n")
    print_table(
        ("resource", "count", "GiB each", "GPU share"),
        [
            (mig_resource(name), count, profile.memory_gib or "?", Fraction(profile.size, model.mig.slots))
            for name, count in layout.items()
            for profile in (model.mig.profile(name),)
        ],
        right=("count", "GiB each", "GPU share"),
    )
    _print_caveat(model.mig)


def _print_caveat(mig: Mig) -> None:
    if mig.placements_inferred:
        print("\nStart positions are those of the GPU family: none are published for this model.")


def spell(layout: Mapping[str, int]) -> str:
    """A layout as this command takes it: `3g.40gb=1 2g.20gb=2`."""
    return " ".join(f"{name}={count}" for name, count in layout.items())
