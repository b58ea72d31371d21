-- The first jobs that may start now, of these lanes or of all, and why they wait as far as that is written. Jobs
-- without offers are in lanes of their own, which no round looks at.
SELECT h.id AS job, h.attempt, h.tenant, h.project, h.lane, h.level, extract(epoch FROM h.enqueued_at)::float8 AS enqueued,
    l.offers::text, h.timeout_s, h.budget_limit_micro, h.cost_micro AS spent_micro, h.preemptible, h.preempts,
    h.spot_losses, h.retries, h.plan_hash, h.waiting::text
FROM gpu_lanes l
CROSS JOIN LATERAL (
    SELECT * FROM gpu_jobs j
    WHERE j.tenant = l.tenant AND j.lane = l.lane AND j.state = 'queued' AND NOT j.blocked
        AND (j.not_before IS NULL OR j.not_before <= %(now)s)
    ORDER BY j.enqueued_at, j.id
    LIMIT %(per_lane)s
) h
WHERE l.offers <> '[]' AND (%(tenants)s::text[] IS NULL
    OR (l.tenant, l.lane) IN (SELECT * FROM unnest(%(tenants)s::text[], %(lanes)s::text[])))
