"""How objects reach the cluster, as a section of the environment file.

As strict as the rest (`gpupool.spec`, which puts the sections together), and as free of cross-checks.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import StringConstraints

from gpupool.spec.field_types import Duration, Model, Name, PlainAddress

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
    """Whether Argo CD applies by itself what changes in the repository or in the cluster; false: a person
    presses Sync."""


class Flux(Model):
    namespace: Name = "flux-system"
    """Namespace that Flux runs in; sources, Kustomizations and HelmReleases go there."""
    interval: Duration = "10m"
    """How often the repository and the cluster are checked."""
    secret: Name | None = None
    """Secret with the repository's credentials, in Flux's namespace; default: none are needed."""
    service_account: Name | None = None
    """Service account that Flux acts as; default: its own controllers'."""


class Delivery(Model):
    engine: Literal["pulumi", "argocd", "flux"] = "pulumi"
    """Who brings the objects to the cluster."""
    repo: Text | None = None
    """Repository with the rendered files (argocd, flux): of Git, or oci:// of a registry."""
    path: Text | None = None
    """Folder of this environment's files in it, as given to `gpupool render -o`."""
    revision: Text = "main"
    """Branch, tag or commit; of a registry: tag or digest. To Flux it is a commit where it has 40 hexadecimal
    digits, a tag where it is a version such as v1.2.3, and else a branch."""
    on_removal: Literal["confirm", "keep", "delete"] | None = None
    """What Argo CD or Flux does with pools and tenants' namespaces the files no longer have. confirm: leave
    them until a person deletes them; assert fails until then and prints the command (argocd alone; its
    default). keep: leave them, which assert warns of (default of flux). delete: delete them with what runs
    there."""
    argocd: ArgoCd = ArgoCd()
    """Argo CD's own settings."""
    flux: Flux = Flux()
    """Flux's own settings."""
