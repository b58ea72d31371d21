SELECT pool, tenant, clock FROM gpu_clocks WHERE %(tenants)s::text[] IS NULL OR tenant = ANY(%(tenants)s::text[])
