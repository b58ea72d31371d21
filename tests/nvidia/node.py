"""A node as NVIDIA's programs see one: a folder that is their root, with cards that the catalog describes.

The folder has the programs, the NVML library of nvml.c, and the files of /proc, /sys and /mps that they read.
They run in it by chroot, without root through a user namespace; nothing is mounted. The cards say what the
catalog says, so what the programs make of memory, compute capability and profiles is theirs, and product
names are not checked by them. What the catalog doesn't have is 0 (copy engines) or the share of the GPU
(memory of an instance).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import NAMESPACE_DNS, uuid5

from gpupool.environment.catalog.models import GpuModel, Mig, Profile
from gpupool.local import crds
from gpupool.programs.failures import LocalError
from tests.required_programs import absent, require

HERE = Path(__file__).parent
PLUGIN, DISCOVERY, MPS, MIG_PARTED = PROGRAMS = (
    "nvidia-device-plugin", "gpu-feature-discovery", "mps-control-daemon", "nvidia-mig-parted",
)  # fmt: skip
DRIVER = "595.91.07"
"""What gpu-operator v26.7.0 installs; the simulated operator says it too."""
CUDA = 13010
SOCKETS = "var/lib/kubelet/device-plugins"
"""Where the device plugin puts its sockets, which no option changes."""

_PLAIN = {1: 0, 2: 1, 3: 2, 4: 3, 7: 4, 8: 5, 6: 6}
"""Compute slices -> NVML's constant of the profile (nvml.h, NVML_GPU_INSTANCE_PROFILE_*)."""
_VARIANTS = {
    ("+me", 1): 7, ("+me", 2): 8, ("+gfx", 1): 10, ("+gfx", 2): 11, ("+gfx", 4): 12,
    ("-me", 1): 13, ("-me", 2): 14, ("+me.all", 1): 15, ("+me.all", 2): 16,
}  # fmt: skip
_ONE_SLICE_MORE_MEMORY = 9


@dataclass(frozen=True)
class Cards:
    """The GPUs of a node, all of one model, each with its layout; None where MIG is off."""

    model: GpuModel
    layouts: tuple[Mapping[str, int] | None, ...]
    memory_mib: int | None = None
    """Of one GPU, where the machine's differs from the model's."""
    clique: int = 0
    """Of the fabric between nodes; 0 without one."""

    @property
    def memory(self) -> int:
        return self.memory_mib or self.model.memory_mib


def constant(mig: Mig, profile: Profile) -> int:
    """NVML's constant of a profile. That with more memory than others of one slice has one of its own."""
    if profile.attribute:
        return _VARIANTS[profile.attribute, profile.compute_slices]
    plain = [other.size for other in mig.profiles if other.compute_slices == profile.compute_slices]
    if profile.compute_slices == 1 and profile.size > min(plain):
        return _ONE_SLICE_MORE_MEMORY
    return _PLAIN[profile.compute_slices]


def profile_mib(cards: Cards, profile: Profile) -> int:
    """MiB of one instance; its share of the GPU where that is not published, or more than the share: NVIDIA's
    programs name a profile by its part of the memory, and would call 33.75 GiB of a B300 1g.67gb."""
    assert cards.model.mig is not None
    share = cards.memory * profile.size // cards.model.mig.slots
    return share if profile.memory_gib is None else min(round(profile.memory_gib * 1024), share)


def _records(cards: Cards) -> list[str]:
    """The lines of the file that nvml.c reads."""
    model = cards.model
    name = model.product_labels[0]
    capability = model.compute_capability.replace(".", " ")
    lines = [f"driver {DRIVER} {CUDA}"]
    for index, layout in enumerate(cards.layouts):
        mode = -1 if model.mig is None else int(layout is not None)
        card = f"{cards.memory} {capability} {mode} {cards.clique} {name}"
        lines.append(f"gpu {_uuid('GPU', index)} {_bus(index)} {card}")
        if model.mig is None:
            continue
        if model.mig.engine_budget is not None:
            lines.append("engines " + _engines(model.mig.engine_budget))
        for number, profile in enumerate(model.mig.profiles):
            # NVML's number of a profile is not published for every model; what matters is that they differ.
            known = 100 + number if profile.nvml_id is None else profile.nvml_id
            lines.append(
                f"profile {constant(model.mig, profile)} {known} {profile.compute_slices}"
                f" {profile_mib(cards, profile)} {profile.sm or 0} 0 {_engines(profile.engines or {})}"
                f" {profile.max_count} {profile.size} {sum(1 << start for start in profile.starts)}"
            )
        instances = [name for name, count in (layout or {}).items() for _ in range(count)]
        lines += [
            f"mig {_uuid('MIG', index, number)} {constant(model.mig, model.mig.profile(name))}"
            for number, name in enumerate(instances)
        ]
    return lines


def _engines(counts: Mapping[str, int]) -> str:
    return " ".join(str(counts.get(kind, 0)) for kind in ("nvdec", "nvenc", "jpeg", "ofa"))


def _uuid(kind: str, *numbers: int) -> str:
    return f"{kind}-{uuid5(NAMESPACE_DNS, '.'.join(map(str, numbers)))}"


def _bus(index: int) -> str:
    return f"00000000:{index + 1:02X}:00.0"


class Node:
    """One root folder, on which one program runs at a time."""

    def __init__(self, root: Path, programs: Sequence[str] = PROGRAMS) -> None:
        self.root = root
        for folder in ("config", "lib64", "mps", "out", "tmp", SOCKETS):
            (root / folder).mkdir(parents=True, exist_ok=True)
        (root / "dev").mkdir(exist_ok=True)
        (root / "dev/null").touch()  # as good as the device, which only root can make
        paths = require(*programs)
        for name, path in paths.items():
            _place(path, root / "bin" / name)
        # Programs close the library between calls, and a GPU remembers what was done to it.
        flags = ("-shared", "-fPIC", "-Wl,-z,nodelete", "-I", str(_nvml_header()))
        _compile(("nvml.c", "nvml_mig.c"), root / "lib64/libnvidia-ml.so.1", *flags)
        for name in ("nvidia-cuda-mps-control", "nvidia-smi"):
            _compile(("mps_control.c",), root / "bin" / name)
        for library in _libraries([*paths.values(), root / "bin/nvidia-smi"]):
            _place(library, root / str(library)[1:])

    def fit(self, cards: Cards, plugin_config: str) -> None:
        """Put these cards into the node, and the device plugin's configuration."""
        for name in ("mps", "out", "proc", "sys", SOCKETS):
            shutil.rmtree(self.root / name, ignore_errors=True)
        for name in ("mps", "out", SOCKETS):
            (self.root / name).mkdir(parents=True)
        (self.root / "config/gpus").write_text("\n".join(_records(cards)) + "\n")
        (self.root / "config/config.yaml").write_text(plugin_config)
        minors = self.root / "proc/driver/nvidia-caps/mig-minors"
        minors.parent.mkdir(parents=True)
        minors.write_text("".join(_capabilities(cards)))
        (self.root / "proc/modules").write_text("nvidia 1 0 - Live 0x0\n")
        for index in range(len(cards.layouts)):
            device = self.root / "sys/bus/pci/devices" / _bus(index).lower().removeprefix("0000")
            device.mkdir(parents=True)
            for name, value in (
                ("vendor", "0x10de"), ("device", "0x20b2"), ("class", "0x030200"), ("numa_node", "-1"),
                ("resource", "0x0 0x0 0x0"),
            ):  # fmt: skip
                (device / name).write_text(f"{value}\n")
            (device / "config").write_bytes(bytes(256))  # without capabilities: not a virtual GPU

    def command(self, program: str, *words: str) -> list[str]:
        """What runs a program of the node in it."""
        inside = ["chroot", str(self.root), f"/bin/{program}", *words]
        return inside if os.geteuid() == 0 else ["unshare", "--map-root-user", *inside]

    def require_chroot(self) -> None:
        """Skip, or fail in CI, where this user can't run anything in the node."""
        done = subprocess.run(self.command("true"), capture_output=True, text=True, check=False)
        if "bin/true" not in done.stderr:  # it isn't there, and that it isn't was found out in the node
            absent(f"can't run programs in a root of their own: {done.stderr.strip()}")

    def environment(self, strategy: str | None) -> dict[str, str]:
        """As the operator's DaemonSets set it; `strategy` is the ClusterPolicy's, which beats the file."""
        given = {"MIG_STRATEGY": strategy} if strategy else {}
        return given | {
            "PATH": "/bin:/usr/bin:/usr/sbin:/sbin",
            "LD_LIBRARY_PATH": "/lib64",
            "NODE_GPUS": "/config/gpus",
            "NODE_INSTANCES": "/out/instances",
            "CONFIG_FILE": "/config/config.yaml",
            "DEVICE_DISCOVERY_STRATEGY": "nvml",
            "MPS_ROOT": "/run/nvidia/mps",
        }

    def labels(self, strategy: str | None = None) -> dict[str, str]:
        """The labels that GPU feature discovery makes of the node. Raises Ended where it fails."""
        output = self.root / "out/labels"
        words = ("--oneshot", "--no-timestamp", "--use-node-feature-api=false", "--output-file=/out/labels")
        command = self.command(DISCOVERY, *words)
        done = subprocess.run(
            command, env=self.environment(strategy), capture_output=True, text=True, timeout=60, check=False
        )
        if done.returncode != 0:
            raise Ended(done.stderr)
        return dict(line.split("=", 1) for line in output.read_text().splitlines())

    def commands(self) -> list[str]:
        """The commands that nvidia-smi and nvidia-cuda-mps-control were given."""
        return (self.root / "mps/commands").read_text().splitlines()


class Ended(Exception):
    """A program that ended with an error; `str()` is what it said last."""

    def __init__(self, log: str) -> None:
        lines = [line for line in log.splitlines() if line.startswith("E")] or log.splitlines()[-3:]
        super().__init__("\n".join(re.sub(r"^E\d+ .*?\] ", "", line) for line in lines))


def _capabilities(cards: Cards) -> list[str]:
    """/proc/driver/nvidia-caps/mig-minors: a line for each instance (MIG user guide, device nodes)."""
    lines, minor = [], 10
    for gpu, layout in enumerate(cards.layouts):
        for instance in range(1, sum((layout or {}).values()) + 1):
            lines.append(f"gpu{gpu}/gi{instance}/access {minor}\n")
            lines.append(f"gpu{gpu}/gi{instance}/ci0/access {minor + 1}\n")
            minor += 2
    return lines


def _place(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists():
        return
    try:
        os.link(source.resolve(), target)
    except OSError:
        shutil.copy(source.resolve(), target)


def _compile(sources: Sequence[str], target: Path, *flags: str) -> None:
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        absent("no C compiler (Debian: gcc and libc6-dev), which the tests of NVIDIA's programs need")
    command = [compiler, "-O1", "-Wall", "-Wextra", "-Werror", *flags, "-o", str(target), *sources]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def _nvml_header() -> Path:
    """The folder of nvml.h in the Go module that the device plugin is built with."""
    try:
        return crds.module_folder("device-plugin", "github.com/NVIDIA/go-nvml") / "pkg/nvml"
    except LocalError as error:
        return absent(str(error))


def _libraries(programs: Sequence[Path]) -> list[Path]:
    """The shared libraries that the programs are linked with, and their loader."""
    found: set[str] = set()
    for program in programs:
        done = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True)
        found.update(re.findall(r"(/\S+) \(0x", done.stdout))
    return sorted(Path(one) for one in found)
