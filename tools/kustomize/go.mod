module gpupool.dev/tools/kustomize

go 1.26.0
