SELECT pool, tenant, clock::bigint AS clock FROM gpu_clocks
