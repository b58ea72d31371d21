"""`gpupool catalog`: lists GPUs, or shows one in detail.

Prints the catalog; holds no facts itself.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gpupool.cli.output import FormatOption, print_json, print_table
from gpupool.environment.catalog.load import refuse_other_vendors
from gpupool.environment.catalog.models import CatalogError, GpuModel, Mig, OtherVendorError
from gpupool.environment.catalog.project import catalog_here, gpu_file
from gpupool.findings import UsageError
from gpupool.findings.json_output import JsonObject, Number, OrNull, read


class _InstanceTypeJson(JsonObject):
    name: str
    provider: str
    gpus: int
    gpu_memory_mib: int
    vcpus: int
    memory_gib: Number
    arch: str
    usd_per_hour: Number | None
    typical_spot_usd_per_hour: Number | None = read("spot_usd_per_hour")
    karpenter: bool
    note: str | None


class _ProfileJson(JsonObject):
    name: str
    id: int | None = read("nvml_id")
    resource: str
    size: int
    starts: list[int]
    max: int = read("max_count")
    compute_slices: int
    memory_gib: Number | None
    sm: int | None
    attribute: str | None
    engines: OrNull[dict[str, int]]
    driver_minimum: str | None
    aliases: list[str]


class _MigJson(JsonObject):
    slots: int
    compute_slices: int
    driver_minimum: str | None
    engine_budget: OrNull[dict[str, int]]
    placements_inferred: bool
    profiles: list[_ProfileJson]


class _SourceJson(JsonObject):
    facts: list[str]
    origin: str
    inferred: bool


def catalog(
    gpu: Annotated[
        str | None, typer.Argument(help="Key of one GPU, e.g. h100-80gb.", show_default=False)
    ] = None,
    format: FormatOption = "text",
    file: Annotated[
        bool,
        typer.Option("--file", help="Print the GPU's file, or a template for a new GPU."),
    ] = False,
) -> None:
    """List the GPUs that a pool can name, or show one with its instance types, MIG profiles and sources.

    Files in catalog/, next to environments/, add GPUs or replace those with the same name. Prices are
    on-demand, Linux, us-east-1; spot prices are typical, not quoted.

    Example: gpupool catalog h100-80gb
    """
    if file:
        if gpu is None:
            raise UsageError("--file prints the file of one GPU; name the GPU")
        try:
            refuse_other_vendors(gpu)
        except OtherVendorError as error:
            raise UsageError(str(error)) from None
        print(gpu_file(gpu), end="")
        return
    known = catalog_here()
    if gpu is None:
        models = [known[key] for key in known.models]
        if format == "json":
            print_json({"gpus": [_details(model) for model in models]})
        else:
            _print_list(models)
        return
    try:
        model = known[gpu]
    except OtherVendorError as error:
        raise UsageError(str(error)) from None
    except CatalogError as error:
        raise UsageError(f"{error}; to add your own GPU: gpupool catalog {gpu} --file") from None
    if format == "json":
        print_json(_details(model))
    else:
        _print_one(model)


def _per_gpu(model: GpuModel) -> list[float]:
    """USD per GPU and hour of every type with a price, cheapest first."""
    return sorted(
        instance_type.usd_per_hour / instance_type.gpus
        for instance_type in model.instance_types
        if instance_type.usd_per_hour is not None
    )


def _print_list(models: list[GpuModel]) -> None:
    rows = []
    for model in models:
        prices = [f"{price:.2f}" for price in _per_gpu(model)]
        span = "-".join(dict.fromkeys([prices[0], prices[-1]])) if prices else ""
        names = [instance_type.name for instance_type in model.instance_types]
        types = names[0] + (f" and {len(names) - 1} more" if len(names) > 1 else "") if names else ""
        memory = f"{model.memory_mib / 1024:.1f}"
        rows.append((model.key, model.title, memory, "yes" if model.mig else "no", types, span))
    print_table(
        ("GPU", "title", "GiB", "MIG", "instance types", "USD/GPU-h"), rows, right=("GiB", "USD/GPU-h")
    )


def _details(model: GpuModel) -> dict[str, Any]:
    prices = _per_gpu(model)
    return {
        "gpu": model.key,
        "title": model.title,
        "memoryMib": model.memory_mib,
        "usdPerGpuHour": {"min": round(prices[0], 4), "max": round(prices[-1], 4)} if prices else None,
        "architecture": model.architecture,
        "computeCapability": model.compute_capability,
        "productLabels": list(model.product_labels),
        "pciIds": list(model.pci_ids),
        "karpenterGpuName": model.karpenter_gpu_name,
        "driver": {"minimum": model.driver_minimum, "lastBranch": model.driver_last_branch},
        "mpsClients": model.mps_clients,
        "instanceTypes": [_InstanceTypeJson.of(row) for row in model.instance_types],
        "mig": None if model.mig is None else _MigJson.of(model.mig),
        "own": model.own_file is not None,
        "sources": [_SourceJson.of(source) for source in model.sources],
    }


def _print_one(model: GpuModel) -> None:
    last = f", {model.driver_last_branch} is the last supported branch" if model.driver_last_branch else ""
    facts = [
        ("memory", f"{model.memory_mib} MiB"),
        ("architecture", f"{model.architecture}, compute capability {model.compute_capability}"),
        ("driver", f"{model.driver_minimum} or newer{last}" if model.driver_minimum else "not specified"),
        ("product labels", ", ".join(model.product_labels)),
        ("PCI ids", ", ".join(model.pci_ids) or "not needed"),
        ("Karpenter GPU name", model.karpenter_gpu_name or "none"),
        ("MPS clients", f"{model.mps_clients} at most"),
        ("MIG", _mig_line(model.mig) if model.mig else "no"),
    ]
    print(f"{model.title} ({model.key})\n")
    for name, value in facts:
        print(f"  {name:<20}{value}")
    if model.instance_types:
        print()
        _print_instance_types(model)
    if model.mig:
        print()
        _print_profiles(model.mig)
    print("\nSources")
    if model.own_file is not None:
        print(f"  catalog/{model.key}.yaml of this project")
    for source in model.sources:
        mark = " (inferred)" if source.inferred else ""
        print(f"  {', '.join(source.facts)}{mark}: {source.origin}")


def _mig_line(mig: Mig) -> str:
    starts = (
        "start positions inferred from the family" if mig.placements_inferred else "start positions published"
    )
    return (
        f"{mig.slots} memory slices, {mig.compute_slices} compute slices,"
        f" driver {mig.driver_minimum or '?'} or newer, {starts}"
    )


def _print_instance_types(model: GpuModel) -> None:
    print_table(
        ("instance type", "GPUs", "vCPUs", "RAM GiB", "arch", "USD/h", "typical spot", "note"),
        [
            (
                instance_type.name,
                instance_type.gpus,
                instance_type.vcpus,
                f"{instance_type.memory_gib:g}",
                instance_type.arch,
                _money(instance_type.usd_per_hour),
                _money(instance_type.spot_usd_per_hour),
                instance_type.note or "",
            )
            for instance_type in model.instance_types
        ],
        right=("GPUs", "vCPUs", "RAM GiB", "USD/h", "typical spot"),
    )


def _money(usd: float | None) -> str:
    return "-" if usd is None else f"{usd:.2f}"


def _print_profiles(mig: Mig) -> None:
    print_table(
        ("profile", "id", "slices", "starts at", "max", "compute", "GiB", "SM", "also called"),
        [
            (
                profile.name,
                "?" if profile.nvml_id is None else profile.nvml_id,
                profile.size,
                ",".join(map(str, profile.starts)),
                profile.max_count,
                profile.compute_slices,
                "?" if profile.memory_gib is None else profile.memory_gib,
                "?" if profile.sm is None else profile.sm,
                ", ".join(profile.aliases),
            )
            for profile in mig.profiles
        ],
        right=("id", "slices", "max", "compute", "GiB", "SM"),
    )
