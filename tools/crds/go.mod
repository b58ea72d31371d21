module gpupool.dev/tools/crds

// Modules that are only read, never built: their custom resource definitions (gpupool/local/crds.yaml).

go 1.26.0

require github.com/aws/karpenter-provider-aws v1.14.1
