"""mig-parted's configuration and what applying it does to the GPUs (format: mig-parted v0.15.0).

The partitioner works as the real one: it tries orders of creation and lets every instance begin at the
first place that is free. It is not the planner's solver and must not become it: the two check each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cache
from typing import Any

from gpupool.environment.catalog.models import CatalogError, GpuModel, Mig, Profile
from gpupool.local.operator import strict_yaml
from gpupool.local.operator.hardware import Hardware
from gpupool.local.operator.strict_yaml import ConfigError

Layout = dict[str, int] | None
"""Instances per profile on one GPU; None while MIG is off, empty when it is on without instances."""

_ENTRY = {"device-filter", "devices", "mig-enabled", "mig-devices"}


class NotPlaceable(Exception):
    """The GPU refuses this set of instances; it is left with MIG on and empty."""


def wanted(text: str | None, name: str, hardware: Hardware) -> list[Layout]:
    """The layout of every GPU of a node under configuration `name` of the file `text`.

    Without a file the configurations are those that the MIG manager generates from the hardware. Raises
    ConfigError for an unknown name or an invalid file.
    """
    if text is None:
        return [_generated(name, hardware.model)] * hardware.gpus
    value = strict_yaml.parse(text)
    strict_yaml.only(value, {"version", "mig-configs"}, "the file")
    strict_yaml.version(value)
    configs = strict_yaml.mapping(value.get("mig-configs"), "mig-configs")
    if name not in configs:
        raise ConfigError(f"mig-configs has no {name!r}; it has {', '.join(map(str, configs)) or 'none'}")
    entries = configs[name]
    if not isinstance(entries, list) or not entries:
        raise ConfigError(f"mig-configs.{name}: expected a list")
    layouts: list[Layout] = [None] * hardware.gpus
    taken: set[int] = set()
    for index, entry in enumerate(entries):
        place = f"mig-configs.{name}[{index}]"
        for gpu, layout in _entry(strict_yaml.mapping(entry, place), place, hardware).items():
            if gpu in taken:
                raise ConfigError(f"{place}: GPU {gpu} is in more than one entry")
            taken.add(gpu)
            layouts[gpu] = layout
    return layouts


def _entry(entry: dict[str, Any], place: str, hardware: Hardware) -> dict[int, Layout]:
    """The layouts that one entry asks for, by GPU index; nothing where its filter names other GPUs."""
    strict_yaml.only(entry, _ENTRY, place)
    if not isinstance(entry.get("mig-enabled"), bool):
        raise ConfigError(f"{place}.mig-enabled: {entry.get('mig-enabled')!r}; expected true or false")
    devices = _devices(entry.get("devices"), place, hardware.gpus)
    layout: Layout = _instances(entry.get("mig-devices") or {}, place, hardware.model)
    if not entry["mig-enabled"]:
        if layout:
            raise ConfigError(f"{place}: mig-devices without mig-enabled")
        layout = None
    filters = entry.get("device-filter")
    if filters is not None:
        wanted_ids = [filters] if isinstance(filters, str) else filters
        if not all(isinstance(wanted_id, str) and wanted_id.startswith("0x") for wanted_id in wanted_ids):
            raise ConfigError(f"{place}.device-filter: {filters!r}; expected PCI ids such as 0x233010DE")
        known = {pci_id.upper() for pci_id in hardware.model.pci_ids}
        if not known.intersection(one.upper() for one in wanted_ids):
            return {}
    return dict.fromkeys(devices, layout)


def _devices(value: Any, place: str, gpus: int) -> list[int]:
    if value == "all":
        return list(range(gpus))
    good = isinstance(value, list) and value and all(type(one) is int and one >= 0 for one in value)
    if not good or len(set(value)) != len(value):
        raise ConfigError(f"{place}.devices: {value!r}; expected all or a list of different GPU indexes")
    beyond = [one for one in value if one >= gpus]
    if beyond:
        raise ConfigError(f"{place}.devices: the node has {gpus} GPUs, no index {beyond[0]}")
    return list(value)


def _instances(value: Any, place: str, model: GpuModel) -> dict[str, int]:
    result = {}
    for name, count in strict_yaml.mapping(value, f"{place}.mig-devices").items():
        if type(count) is not int or count < 1:
            raise ConfigError(f"{place}.mig-devices.{name}: {count!r}; expected a number of 1 or more")
        if model.mig is None:
            raise ConfigError(f"{place}: the {model.title} can't be partitioned")
        try:
            result[model.mig.profile(name).name] = count
        except CatalogError as error:
            raise ConfigError(f"{place}.mig-devices: {model.title}: {error}") from error
    return result


def _generated(name: str, model: GpuModel) -> Layout:
    """The configurations that mig-manager v0.15.0 makes from what the GPU reports: the common ones."""
    if name == "all-disabled":
        return None
    if name == "all-enabled":
        return {}
    for profile in model.mig.profiles if model.mig else ():
        # A name is a label value, where + is not allowed.
        if name == f"all-{profile.name}".replace("+", "."):
            return {profile.name: profile.max_count}
    raise ConfigError(f"no MIG configuration {name!r} is generated for the {model.title}")


def partition(model: GpuModel, layout: Mapping[str, int]) -> list[tuple[str, int]]:
    """Create the instances on one empty GPU: (profile, start slot) each. Raises NotPlaceable."""
    if model.mig is None:
        raise NotPlaceable(f"the {model.title} can't be partitioned")
    mig = model.mig
    profiles = {name: mig.profile(name) for name in layout}
    for name, profile in profiles.items():
        if layout[name] > profile.max_count:
            raise NotPlaceable(f"a GPU takes at most {profile.max_count} x {name}, not {layout[name]}")
    _check_engines(mig, [profiles[name] for name, count in layout.items() for _ in range(count)])
    # Bigger compute share first, as mig-parted sorts; then whatever order works.
    names = tuple(
        sorted(profiles, key=lambda name: (-profiles[name].compute_slices, -profiles[name].size, name))
    )

    @cache
    def create(used: int, left: tuple[int, ...]) -> tuple[tuple[str, int], ...] | None:
        if not any(left):
            return ()
        for index, name in enumerate(names):
            start = _first_free(profiles[name], used) if left[index] else None
            if start is None:
                continue
            mask = ((1 << profiles[name].size) - 1) << start
            rest = create(used | mask, (*left[:index], left[index] - 1, *left[index + 1 :]))
            if rest is not None:
                return ((name, start), *rest)
        return None

    done = create(0, tuple(layout[name] for name in names))
    if done is None:
        shape = ", ".join(f"{count} x {name}" for name, count in layout.items())
        raise NotPlaceable(
            f"no order of creation places {shape} on the {model.title} ({mig.slots} memory slices)"
        )
    return list(done)


def _first_free(profile: Profile, used: int) -> int | None:
    mask = (1 << profile.size) - 1
    return next((start for start in profile.starts if not used & (mask << start)), None)


def _check_engines(mig: Mig, instances: list[Profile]) -> None:
    """Media engines, and the attributes that one GPU can give to one instance only."""
    if mig.engine_budget is not None:
        need: Counter[str] = Counter()
        for profile in instances:
            need.update(profile.engines or {})
        for engine, count in need.items():
            have = mig.engine_budget.get(engine, 0)
            if count > have:
                raise NotPlaceable(f"the instances need {count} {engine} engines, but the GPU has {have}")
        return
    exclusive = [profile.name for profile in instances if (profile.attribute or "").startswith("+me")]
    if len(exclusive) > 1:
        raise NotPlaceable(f"one instance of a GPU can have the media engines, not {' and '.join(exclusive)}")
