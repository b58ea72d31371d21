-- Jobs and arrays whose ids lie between two, `limit` of each at most.
SELECT id, false AS is_array FROM (
    (SELECT id FROM gpu_jobs WHERE id BETWEEN %(first)s::uuid AND %(last)s::uuid
        AND (%(tenants)s::text[] IS NULL OR tenant = ANY(%(tenants)s::text[])) ORDER BY id LIMIT %(limit)s)
    UNION
    (SELECT id FROM gpu_job_history WHERE id BETWEEN %(first)s::uuid AND %(last)s::uuid
        AND (%(tenants)s::text[] IS NULL OR tenant = ANY(%(tenants)s::text[])) ORDER BY id LIMIT %(limit)s)
    ORDER BY id LIMIT %(limit)s
) job
UNION ALL
SELECT group_id, true FROM (
    (SELECT DISTINCT group_id FROM gpu_jobs WHERE group_id BETWEEN %(first)s::uuid AND %(last)s::uuid
        AND (%(tenants)s::text[] IS NULL OR tenant = ANY(%(tenants)s::text[])) ORDER BY group_id LIMIT %(limit)s)
    UNION
    (SELECT DISTINCT group_id FROM gpu_job_history WHERE group_id BETWEEN %(first)s::uuid AND %(last)s::uuid
        AND (%(tenants)s::text[] IS NULL OR tenant = ANY(%(tenants)s::text[])) ORDER BY group_id LIMIT %(limit)s)
    ORDER BY group_id LIMIT %(limit)s
) members
