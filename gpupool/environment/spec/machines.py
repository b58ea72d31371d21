"""What the machines of a cloud pool are made of, beside their image: disk, network, kubelet, placement.

Fields and rules are those of Karpenter's EC2NodeClass (karpenter-provider-aws v1.14.1, CRD); what AWS adds to
them is judged in `gpupool.environment.plan.checks.machines`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from gpupool.environment.spec.field_types import Count, Duration, Hint, Model, Positive, Text

_ROOT_DEVICE = "/dev/xvda"
"""Of Amazon's images."""
_Tags = Annotated[dict[Text, Text], Field(min_length=1, max_length=20)]
_Percent = Annotated[int, Field(ge=0, le=100)]
_QUANTITY = r"([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?"
_Amount = Annotated[str, StringConstraints(pattern=rf"^{_QUANTITY}$"), Hint("an amount such as 500m or 2Gi")]
_Amounts = dict[Literal["cpu", "memory", "ephemeral-storage", "pid"], _Amount]
_Threshold = Annotated[
    str,
    StringConstraints(pattern=rf"^(([0-9]{{1,2}}(\.[0-9]{{1,2}})?|100(\.0{{1,2}})?)%|{_QUANTITY})$"),
    Hint("an amount such as 1Gi or a share such as 5%"),
]
_BYTE = r"(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_Address = Annotated[
    str,
    StringConstraints(pattern=rf"^(({_BYTE}\.){{3}}{_BYTE}|[0-9A-Fa-f]*:[0-9A-Fa-f:]+)$", max_length=39),
    Hint("an address such as 10.100.0.10"),
]
_Signal = Literal[
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "pid.available",
]

_SubnetId = Annotated[
    str, StringConstraints(pattern=r"^subnet-[0-9a-z]+$"), Hint("an id such as subnet-0123")
]
_GroupId = Annotated[str, StringConstraints(pattern=r"^sg-[0-9a-z]+$"), Hint("an id such as sg-0123")]
_PlacementId = Annotated[str, StringConstraints(pattern=r"^pg-[0-9a-z]+$"), Hint("an id such as pg-0123")]
_SnapshotId = Annotated[str, StringConstraints(pattern=r"^snap-[0-9a-z]+$"), Hint("an id such as snap-0123")]


class RootVolume(Model):
    size: Annotated[
        str,
        StringConstraints(
            pattern=r"^(([1-9][0-9]{0,3}|[1-4][0-9]{4}|5[0-8][0-9]{3}|59000)Gi|([1-9]|[1-4][0-9]|5[0-8])Ti)$"
        ),
        Hint("a size such as 500Gi"),
    ] = "200Gi"
    """Size of the root disk, at most 58Ti (EC2NodeClass); `type` may allow less. Images of ML frameworks take
    about 10 GB each."""
    type: Literal["gp3", "gp2", "io1", "io2"] = "gp3"
    """EBS volume type."""
    iops: Positive | None = None
    """I/O operations per second (gp3, io1, io2)."""
    throughput: Positive | None = None
    """Throughput in MiB per second (gp3)."""
    kms_key: Text | None = None
    """Id or ARN of the KMS key that encrypts the disk; default: the account's key for EBS."""
    snapshot: _SnapshotId | None = None
    """Snapshot that the disk is created from, for example with images."""

    @property
    def gib(self) -> int:
        number, unit = int(self.size[:-2]), self.size[-2:]
        return number * 1024 if unit == "Ti" else number

    def mapping(self) -> dict[str, Any]:
        """An item of EC2NodeClass `blockDeviceMappings`."""
        ebs = {
            "volumeSize": self.size,
            "volumeType": self.type,
            "iops": self.iops,
            "throughput": self.throughput,
            "kmsKeyID": self.kms_key,
            "snapshotID": self.snapshot,
            "encrypted": True,
            "deleteOnTermination": True,
        }
        return {
            "deviceName": _ROOT_DEVICE,
            "ebs": {key: value for key, value in ebs.items() if value is not None},
        }


class Term(Model):
    """Fields that are written as the EC2NodeClass has them."""

    def body(self) -> dict[str, Any]:
        """In the words of the EC2NodeClass."""
        return self.model_dump(by_alias=True, exclude_none=True)


class SubnetTerm(Term):
    tags: _Tags | None = None
    """Tags of subnets; the value * matches any."""
    id: _SubnetId | None = None
    """A subnet's id; without other fields."""


class SecurityGroupTerm(Term):
    tags: _Tags | None = None
    """Tags of security groups; the value * matches any."""
    id: _GroupId | None = None
    """A security group's id; without other fields."""
    name: Text | None = None
    """A security group's name (not the tag Name); without other fields."""


class PlacementGroup(Term):
    name: Text | None = None
    """The group's name."""
    id: _PlacementId | None = None
    """The group's id, instead of its name."""


class Kubelet(Term):
    max_pods: Positive | None = None
    """Maximum number of pods on a node."""
    pods_per_core: Count | None = None
    """Maximum number of pods per core."""
    system_reserved: _Amounts | None = None
    """Resources that are reserved for the system."""
    kube_reserved: _Amounts | None = None
    """Resources that are reserved for Kubernetes components."""
    eviction_hard: dict[_Signal, _Threshold] | None = None
    """Hard eviction thresholds: below them, pods are evicted immediately."""
    eviction_soft: dict[_Signal, _Threshold] | None = None
    """Soft eviction thresholds: below them for longer than the grace period, pods are evicted."""
    eviction_soft_grace_period: dict[_Signal, Duration] | None = None
    """Grace periods of the soft eviction thresholds."""
    eviction_max_pod_grace_period: Count | None = None
    """Maximum grace period of a pod at a soft eviction, in seconds."""
    image_gc_high_threshold_percent: Annotated[
        _Percent | None, Field(alias="imageGCHighThresholdPercent")
    ] = None
    """Percentage of disk use above which images are removed."""
    image_gc_low_threshold_percent: Annotated[_Percent | None, Field(alias="imageGCLowThresholdPercent")] = (
        None
    )
    """Percentage of disk use down to which images are removed."""
    cpu_cfs_quota: Annotated[bool | None, Field(alias="cpuCFSQuota")] = None
    """Whether CPU limits are enforced."""
    cluster_dns: Annotated[list[_Address] | None, Field(alias="clusterDNS")] = None
    """IP addresses of the cluster's DNS."""
