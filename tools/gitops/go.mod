module gpupool.dev/tools/gitops

// Modules that are only read, never built, and by tests alone: the custom resource definitions of Argo CD and
// Flux (tests/cluster/delivery/crds.yaml).

go 1.26.0

require (
	github.com/argoproj/argo-cd/v3 v3.4.13
	github.com/fluxcd/helm-controller v1.6.0
	github.com/fluxcd/kustomize-controller v1.9.5
	github.com/fluxcd/source-controller v1.9.5
)
