-- Attempts that have run for long enough to be called idle, and of which that has not been said yet.
SELECT id AS job, attempt, version, tenant, name, jsonb_array_length(placement) AS nodes FROM gpu_jobs j
WHERE state = 'running' AND started_at <= %(before)s AND NOT cancel_requested AND preempt_reason IS NULL
    AND request ->> 'container_image' IS NOT NULL AND request ->> 'may_idle' IS DISTINCT FROM 'true'
    AND NOT EXISTS (
        SELECT FROM gpu_events e WHERE e.job = j.id AND e.type = 'idle'
            AND e.data ->> 'attempt' = j.attempt::text AND e.data ->> 'action' = %(action)s::text)
