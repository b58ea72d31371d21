"""How objects reach the cluster, as a section of the environment file.

As strict as the rest (`gpupool.environment.spec`, which puts the sections together), and as free of
cross-checks.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import StringConstraints

from gpupool.environment.spec.field_types import Duration, Model, Name, PlainAddress

Text = Annotated[str, StringConstraints(min_length=1, max_length=1000)]


class ArgoDestination(Model):
    server: Annotated[Text, PlainAddress] | None = None
    """Address of the API server, as Argo CD knows the cluster."""
    name: Text | None = None
    """Name of the cluster in Argo CD, instead of its address."""


class ArgoCd(Model):
    namespace: Name = "argocd"
    """Namespace that Argo CD runs in; AppProjects and Applications go there."""
    project: Name | None = None
    """Name of the AppProject; default: gpupool-<environment>. Charts get a second one, <project>-releases."""
    destination: ArgoDestination = ArgoDestination()
    """The cluster; default: the one that Argo CD runs in."""
    automated: bool = True
    """Whether Argo CD syncs changes in the repository or in the cluster automatically; false: a person
    presses Sync."""


class Flux(Model):
    namespace: Name = "flux-system"
    """Namespace that Flux runs in; sources, Kustomizations and HelmReleases go there."""
    interval: Duration = "10m"
    """How often the repository and the cluster are checked."""
    secret: Name | None = None
    """Secret with the repository's credentials, in Flux's namespace; default: no credentials."""
    service_account: Name | None = None
    """Service account that Flux acts as; default: its own controllers'."""


class Delivery(Model):
    engine: Literal["pulumi", "argocd", "flux"] = "pulumi"
    """What applies the objects to the cluster."""
    repo: Text | None = None
    """Repository with the rendered files (argocd, flux): a Git address, or oci:// for a registry."""
    path: Text | None = None
    """Folder of this environment's files in the repository, as given to `gpupool render -o`."""
    revision: Text = "main"
    """Branch, tag or commit; for a registry: tag or digest. Flux reads 40 hexadecimal digits as a commit, a
    version such as v1.2.3 as a tag, and anything else as a branch."""
    on_removal: Literal["confirm", "keep", "delete"] | None = None
    """What Argo CD or Flux does with pools and tenants' namespaces that are removed from the files. confirm:
    keep them until a person deletes them; assert fails until then and prints the command (argocd only; its
    default). keep: keep them; assert warns (default of flux). delete: delete them and everything in them."""
    argocd: ArgoCd = ArgoCd()
    """Argo CD's own settings."""
    flux: Flux = Flux()
    """Flux's own settings."""
