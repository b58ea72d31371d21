-- Of each of these lanes the jobs before the two places in it; the second is the first or behind it. Jobs are counted
-- in the index, and those that back off are taken off again.
SELECT r.tenant, r.lane, j.sure - b.sure AS sure, j.alike - b.alike AS alike
FROM unnest(%(tenants)s::text[], %(lanes)s::text[], %(sure_at)s::timestamptz[], %(sure_id)s::uuid[],
    %(like_at)s::timestamptz[], %(like_id)s::uuid[]) r (tenant, lane, sure_at, sure_id, like_at, like_id)
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE (enqueued_at, id) < (r.sure_at, r.sure_id)) AS sure, count(*) AS alike
    FROM gpu_jobs
    WHERE tenant = r.tenant AND lane = r.lane AND state = 'queued' AND NOT blocked
        AND (enqueued_at, id) < (r.like_at, r.like_id)
) j
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE (enqueued_at, id) < (r.sure_at, r.sure_id)) AS sure, count(*) AS alike
    FROM gpu_jobs
    WHERE tenant = r.tenant AND lane = r.lane AND state = 'queued' AND NOT blocked AND not_before > %(now)s
        AND (enqueued_at, id) < (r.like_at, r.like_id)
) b
