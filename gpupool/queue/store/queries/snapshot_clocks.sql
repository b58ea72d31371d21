SELECT pool, tenant, clock FROM gpu_clocks
