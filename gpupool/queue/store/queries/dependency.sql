-- How these jobs and arrays of the tenant stand, and which of them are none.
SELECT d.waits, d.cause, ARRAY(
    SELECT t.id FROM unnest(%(succeed)s::uuid[] || %(finish)s::uuid[]) AS t (id)
    WHERE NOT EXISTS (SELECT FROM gpu_jobs j WHERE j.id = t.id AND j.tenant = %(tenant)s)
        AND NOT EXISTS (SELECT FROM gpu_jobs j WHERE j.group_id = t.id AND j.tenant = %(tenant)s)
        AND NOT EXISTS (SELECT FROM gpu_job_history j WHERE j.id = t.id AND j.tenant = %(tenant)s)
        AND NOT EXISTS (SELECT FROM gpu_job_history j WHERE j.group_id = t.id AND j.tenant = %(tenant)s)) AS unknown
FROM gpu_dependency(%(succeed)s::uuid[], %(finish)s::uuid[], NULL) d
