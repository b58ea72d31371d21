"""What requests may contain: strict bodies, every size bounded.

Fields are checked one by one and against each other, never against the Plan (`gpupool.queue.api.accept` does
that).
"""

from __future__ import annotations

import math
import posixpath
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from gpupool.environment.image_references import parsed
from gpupool.environment.workspace import SCRATCH, SHM
from gpupool.queue.records import RENAMED, JobState
from gpupool.queue.text_secrets import HIDDEN
from vapcheck import amount

# Every pattern of the API is a name here, and a sentence in WANTED.
TEXT = r"^[^\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]*$"
"""Printable text: no control characters, and none that turn the direction of text around."""
_WORD = r"^[A-Za-z0-9]([A-Za-z0-9._+-]*[A-Za-z0-9])?$"
_DNS_NAME = r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$"
_ADDRESS = r"^https?://[^\s\x00-\x1f\x7f-\x9f\\]+$"
_VARIABLE = r"^[A-Za-z_][A-Za-z0-9_.-]*$"
_PATH = r"^/[^\x00:]*$"
_S3 = r"^s3://[^\s/\x00-\x1f]+(/[^\s\x00-\x1f]*)?$"
_SIZE = r"^[0-9]{1,12}([.][0-9]{1,3})?(k|M|G|T|Ki|Mi|Gi|Ti)?$"
KEY = r"^[!-~]+$"
"""Also of an image."""
POSITION = r"^[0-9]{1,18}$"
BEGINNING = "^{8}(-({0,4}|{4}-({0,4}|{4}-({0,4}|{4}-{0,12}))))?$".replace("{", "[0-9a-fA-F]{")
"""Eight digits of an id or more: those of about a minute."""
UUID = r"^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"

WANTED: Mapping[str, str] = {
    TEXT: "text in one line, without control characters or characters that turn its direction around",
    _WORD: "letters, digits, '.', '_', '+' and '-', a letter or digit at both ends",
    _DNS_NAME: "lower-case letters, digits, '-' and '.', a letter or digit at both ends",
    _ADDRESS: "an http or https address without spaces, such as https://models.example.com/predict",
    _VARIABLE: "a variable's name: letters, digits, '_', '.' and '-', no digit at its beginning",
    _PATH: "an absolute path without a colon, such as /data",
    _S3: "a place such as s3://checkpoints/run-1, without spaces",
    _SIZE: "a size such as 512Mi or 8Gi",
    KEY: "printable ASCII characters without spaces",
    POSITION: "the id of an event: a whole number of at most 18 digits",
    BEGINNING: "eight characters of an id or more, such as 0195d6c8-2f3a",
    UUID: "a whole id, such as 0195d6c8-2f3a-7e11-b7a5-6f1d2c3b4a59",
}
"""What a text must be, for each pattern; a regular expression is no message."""


def _not_renamed(name: Any) -> Any:
    if isinstance(name, str) and name in RENAMED:
        raise ValueError(f"is now called {RENAMED[name]}; write {RENAMED[name]}")
    return name


def _not_hidden(text: str) -> str:
    if HIDDEN in text:
        raise ValueError(
            f"has {HIDDEN}, which stands in answers for what is not shown; write the value itself"
        )
    return text


def _storable(text: str) -> str:
    if "\x00" in text:
        raise ValueError("has a NUL character")
    return _not_hidden(text)


def _json(value: Any) -> Any:
    """PostgreSQL keeps no NUL, no half of a surrogate pair and no number beyond float64 in JSON."""
    if isinstance(value, str):
        if "\x00" in value or (not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value)):
            raise ValueError("has a NUL character or half of a surrogate pair")
        _not_hidden(value)
    elif isinstance(value, bool) or value is None:
        pass
    elif isinstance(value, int | float):
        if not abs(value) <= 1e308 or not math.isfinite(value):
            raise ValueError("has a number that is too large")
    elif isinstance(value, dict):
        for name, inner in value.items():
            _json(name)
            _json(inner)
    else:
        for inner in value:
            _json(inner)
    return value


Name = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=TEXT)]
Word = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=_WORD)]
ObjectName = Annotated[str, StringConstraints(min_length=1, max_length=253, pattern=_DNS_NAME)]
Address = Annotated[
    str,
    StringConstraints(min_length=8, max_length=2048, pattern=_ADDRESS),
    BeforeValidator(lambda text: _not_hidden(text) if isinstance(text, str) else text),
]
Uuid = Annotated[str, StringConstraints(pattern=UUID, to_lower=True)]
Argument = Annotated[str, StringConstraints(max_length=32_768), AfterValidator(_storable)]


def _image(text: str) -> str:
    parsed(text)
    return text


Image = Annotated[str, StringConstraints(min_length=1, max_length=1024, pattern=KEY), AfterValidator(_image)]


def _size(text: str) -> str:
    size = amount(text)
    if size is None or size < 2**20:
        raise ValueError("is less than 1Mi; write a size such as 512Mi or 8Gi")
    return text


Size = Annotated[str, StringConstraints(max_length=20, pattern=_SIZE), AfterValidator(_size)]
"""A quantity of Kubernetes, in bytes."""
Variable = Annotated[str, StringConstraints(min_length=1, max_length=253, pattern=_VARIABLE)]
Priority = Literal["critical", "high", "medium", "low"]

State = Annotated[JobState, BeforeValidator(_not_renamed)]
UnfinishedState = Annotated[Literal["queued", "scheduled", "running"], BeforeValidator(_not_renamed)]


def _listed(value: Any) -> Any:
    """One id stands for a list of it."""
    return [] if value is None else [value] if isinstance(value, str) else value


def _each_once(ids: list[str]) -> list[str]:
    return list(dict.fromkeys(ids))


JobIds = Annotated[
    list[Uuid],
    Field(max_length=20),
    BeforeValidator(
        _listed, json_schema_input_type=Uuid | Annotated[list[Uuid], Field(max_length=20)] | None
    ),
    AfterValidator(_each_once),
]
"""Ids of jobs, and of arrays for all of their jobs; or one id."""


def _short(most: int) -> BeforeValidator:
    """Refuses what has more than `most` parts before each of them is looked at, and has an error."""

    def check(given: Any) -> Any:
        if isinstance(given, dict | list) and len(given) > most:
            raise ValueError(f"has {len(given):,} parts, and {most} are allowed")
        return given

    return BeforeValidator(check)


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _few_unknown(cls, given: Any) -> Any:
        """Each unknown field would have an error of its own."""
        if isinstance(given, dict) and len(given) > len(cls.model_fields) + 20:
            raise ValueError(f"has {len(given):,} fields, and only {len(cls.model_fields)} are known")
        return given


class Volume(_Body):
    """A PersistentVolumeClaim of the tenant's namespace."""

    claim: ObjectName = Field(description="Name of the claim.")
    path: Annotated[str, StringConstraints(max_length=1024, pattern=_PATH)] = Field(
        description="Mount path in the container."
    )
    read_only: bool = False


class JobRequest(_Body):
    """A job: an HTTP request that the queue sends (target_url), or a container (container_image)."""

    gpu_pool_requested: Word = Field(
        "auto",
        description="A pool, a GPU such as t4, `mig`, a MIG profile, or `auto` for the cheapest that fits.",
    )
    isolation_level: Literal["shared", "exclusive"] | None = Field(
        None, description="Default: shared if the pool supports it, else exclusive."
    )
    target_url: Address | None = Field(
        None, description="URL that an HTTP job is sent to; its origin must be allowed."
    )
    request_json: Annotated[Any, AfterValidator(_json)] = Field(
        None, description="JSON body of the HTTP request."
    )
    container_image: Image | None = Field(
        None, description="Image of a container job: [REGISTRY/]NAME[:TAG][@DIGEST]."
    )
    container_command: Annotated[list[Argument], Field(min_length=1, max_length=200), _short(200)] | None = (
        Field(None, description="Command of the container; default: the image's.")
    )
    env: Annotated[dict[Variable, Argument], Field(max_length=200), _short(200)] = Field(
        {}, description="Environment variables of the container."
    )
    job_name: Name = Field("job", description="Display name; need not be unique.")
    project_id: Name | None = Field(None, description="Name or id of a project of the tenant.")
    priority: Priority | None = Field(
        None, description="Default: medium. If the environment lacks the level, the next lower one applies."
    )
    gpu_type: Word | None = Field(None, description="Key of a GPU in the catalog, such as a100-80gb.")
    gpu_count: Annotated[int, Field(ge=1, le=1024)] = Field(
        1, description="Number of whole GPUs; 1 on shared or partitioned GPUs."
    )
    budget_limit_usd: Annotated[float, Field(ge=0.000001, le=1_000_000_000)] | None = Field(
        None, description="Maximum cost of all attempts, in USD."
    )
    timeout_seconds: Annotated[int, Field(ge=1, le=31_536_000)] | None = Field(
        None, description="Maximum run time of an attempt; default: the environment's."
    )
    preemptible: bool | None = Field(
        None, description="Whether other jobs may preempt it; default: that of its priority."
    )
    checkpoint_s3_path: Annotated[str, StringConstraints(max_length=1024, pattern=_S3)] | None = Field(
        None, description="S3 prefix for its checkpoints."
    )
    retries: Annotated[int, Field(ge=0, le=20)] | None = Field(
        None, description="Maximum number of retries after the job's own failures; default: 0."
    )
    callback_url: Address | None = Field(
        None, description="URL called when the job has ended; its origin must be allowed."
    )
    image_pull_secrets: Annotated[list[ObjectName], Field(max_length=10)] = Field(
        [], description="Secrets of type dockerconfigjson for the image's registry."
    )
    env_from_secrets: Annotated[list[ObjectName], Field(max_length=20)] = Field(
        [], description="Secrets whose keys become environment variables."
    )
    volumes: Annotated[list[Volume], Field(max_length=20)] = Field(
        [], description="PersistentVolumeClaims of the tenant's namespace and their mount paths."
    )
    shm_size: Size | None = Field(
        None,
        description="Size of /dev/shm, such as 8Gi; it counts as memory. Default: half of the pod's memory.",
    )
    scratch_size: Size | None = Field(
        None,
        description="Size limit of /scratch, such as 50Gi. Default: the job's share of the node's disk.",
    )
    array: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        None, description="Number of jobs to submit with one group_id and a group_index each."
    )
    may_idle: bool = Field(False, description="Never warn about the job or stop it when its GPU is idle.")
    depends_on: JobIds = Field(
        [], description="Jobs and arrays that must succeed first; if one fails, this job is cancelled."
    )
    depends_on_ended: JobIds = Field(
        [], description="Jobs and arrays that must end first, whether they succeed or not."
    )
    deadline_seconds: Annotated[int, Field(ge=1, le=31_536_000)] | None = Field(
        None, description="The job expires if it has not started this long after submission."
    )

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if (self.target_url is None) == (self.container_image is None):
            raise ValueError("give either target_url or container_image")
        if self.target_url is None and self.request_json is not None:
            raise ValueError("request_json belongs to target_url")
        only_containers = (
            "container_command",
            "env",
            "image_pull_secrets",
            "env_from_secrets",
            "volumes",
            "shm_size",
            "scratch_size",
            "checkpoint_s3_path",
            "may_idle",
        )
        names = [name for name in only_containers if self.target_url and getattr(self, name)]
        if names:
            raise ValueError(f"{', '.join(names)}: only for jobs with container_image")
        return self

    @model_validator(mode="after")
    def _one_place_each(self) -> Self:
        taken = {SHM: "shared memory", SCRATCH: "the scratch volume"}
        for number, volume in enumerate(self.volumes):
            path = posixpath.normpath(volume.path)
            if path in taken:
                raise ValueError(f"volumes: {volume.path} is where {taken[path]} is; choose another path")
            taken[path] = f"volume {number}"
        return self


class PriorityChange(_Body):
    """A new priority for a queued job."""

    priority: Priority


class CancelRequest(_Body):
    """Which jobs of the tenant to cancel: those that match all given fields, or `all`."""

    all: bool = False
    state: Annotated[list[UnfinishedState], Field(max_length=3)] = []
    project: Name | None = None
    pool: Name | None = None
    user: Name | None = None
    group: Uuid | None = Field(None, description="Id of an array.")
    name: Name | None = None

    @model_validator(mode="after")
    def _chosen(self) -> Self:
        chosen = [name for name in type(self).model_fields if name != "all" and getattr(self, name)]
        if bool(chosen) == self.all:
            raise ValueError("give all, or which jobs: state, project, pool, user, group or name")
        return self


class RerunRequest(_Body):
    """Changes to a job or an array that runs again."""

    changes: Annotated[dict[str, Any], _short(100)] = Field(
        {},
        description="Fields of a submission that replace those of the job; null for the default. "
        "Variables of `env` are added to the job's.",
    )
    unsuccessful: bool = Field(
        False, description="Of an array, rerun only the jobs that ended without success."
    )
