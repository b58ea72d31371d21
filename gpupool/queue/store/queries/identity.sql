SELECT database, mark, lease, lease_since, take_over FROM gpu_identity
