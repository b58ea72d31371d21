-- Jobs whose changes an earlier snapshot does not hold, and those whose time to back off has ended since.
SELECT id, tenant, lane, state IN ('scheduled', 'running') AS holds FROM gpu_jobs
WHERE changed >= pg_snapshot_xmin(%(seen)s::pg_snapshot) AND changed < pg_snapshot_xmax(pg_current_snapshot())
    AND NOT pg_visible_in_snapshot(changed, %(seen)s::pg_snapshot)
UNION ALL
SELECT id, tenant, lane, state IN ('scheduled', 'running') AS holds FROM gpu_jobs
WHERE not_before > %(then)s AND not_before <= %(now)s
