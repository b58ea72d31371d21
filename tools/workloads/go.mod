module gpupool.dev/tools/workloads

// Modules that are only read, never built: the definitions that examples and the queue's chart are tested with
// (tests/cluster/examples/crds.yaml, tests/cluster/queue/crds.yaml).

go 1.26.0

require (
	github.com/kubeflow/spark-operator/v2 v2.5.1
	github.com/prometheus-operator/prometheus-operator v0.85.0
	github.com/ray-project/kuberay/ray-operator v1.6.2
)
