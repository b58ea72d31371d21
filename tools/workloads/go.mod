module gpupool.dev/tools/workloads

// Modules that are only read, never built: the definitions that examples are tested with
// (tests/cluster/examples/crds.yaml).

go 1.26.0

require (
	github.com/kubeflow/spark-operator/v2 v2.5.1
	github.com/ray-project/kuberay/ray-operator v1.6.2
)
