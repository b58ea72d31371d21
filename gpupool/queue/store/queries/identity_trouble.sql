SELECT trouble FROM gpu_identity
