-- All jobs of an array, by their index; without their requests, which are large.
SELECT id, tenant, group_index, state FROM (
    SELECT id, tenant, group_index, state FROM gpu_jobs WHERE group_id = %(array)s::uuid
    UNION ALL
    SELECT id, tenant, group_index, state FROM gpu_job_history WHERE group_id = %(array)s::uuid
) member
ORDER BY group_index
