"""The way to gpupool: start a project, convert hand-written files, import a cluster, check prerequisites."""
