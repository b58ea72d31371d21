-- A trigger writes the event.
UPDATE gpu_callbacks SET
    due_at = coalesce(%(again_at)s::timestamptz, 'infinity'), tries = tries + 1, error = %(error)s
WHERE job = %(job)s::uuid
