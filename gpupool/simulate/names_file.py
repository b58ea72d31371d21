"""The file of --map: what names of a trace are in the environment file.

tenants: {vc6: vision, "*": language}
gpus: {V100: a100-80gb, "*": ""}       # an empty name: any GPU
priorities: {LS: high}
"""

from __future__ import annotations

from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from gpupool.findings import UsageError
from gpupool.simulate.trace import Names


class _NamesFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    tenants: dict[str, str] = {}
    gpus: dict[str, str] = {}
    priorities: dict[str, str] = {}


def read_names(file: Path | None) -> Names:
    """None: every name as it is. Raises UsageError."""
    if file is None:
        return Names()
    try:
        read = _NamesFile.model_validate(yaml.safe_load(file.read_text(encoding="utf-8")) or {})
    except OSError as error:
        raise UsageError(f"--map {file}: can't be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"--map {file}: is not YAML: {' '.join(str(error).split())}") from error
    except ValidationError as error:
        first = error.errors()[0]
        at = ".".join(map(str, first["loc"])) or "the file"
        raise UsageError(
            f"--map {file}: {at}: {first['msg'].lower()}; write tenants, gpus, priorities: names -> names"
        ) from error
    return Names(read.tenants, read.gpus, read.priorities)
