module gpupool.dev/tools/go-nvml

// The mock cards of go-nvml, for tests alone: another go-nvml than mig-parted's, which can't be built with it.

go 1.26.0

require github.com/NVIDIA/go-nvml v0.13.4-1
