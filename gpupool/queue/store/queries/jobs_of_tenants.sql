-- A page, newest first: each table gives one for each tenant, and they are merged. It ends early where the requests of its
-- jobs come to more than so many bytes; `found` says how many there were.
SELECT * FROM (
    SELECT *, count(*) OVER () AS found, sum(octet_length(request::text)) OVER (
        ORDER BY enqueued_at DESC, id DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bytes
    FROM (SELECT * FROM (
    (SELECT own.* FROM unnest(%(tenants)s::text[]) AS t (tenant) CROSS JOIN LATERAL (SELECT * FROM gpu_jobs j
     WHERE j.tenant = t.tenant AND (j.enqueued_at, j.id) < (%(before)s::timestamptz, %(before_id)s::uuid)
        AND (%(states)s::text[] IS NULL OR j.state = ANY(%(states)s::text[]))
        AND (%(project)s::text IS NULL OR j.project = %(project)s::text)
        AND (%(pool)s::text IS NULL OR j.pool = %(pool)s::text)
        AND (%(user)s::text IS NULL OR j.user_name = %(user)s::text)
        AND (%(name)s::text IS NULL OR j.name = %(name)s::text)
        AND (%(group)s::uuid IS NULL OR j.group_id = %(group)s::uuid)
     ORDER BY j.enqueued_at DESC, j.id DESC LIMIT %(limit)s::int) own)
    UNION ALL
    (SELECT own.* FROM unnest(%(tenants)s::text[]) AS t (tenant) CROSS JOIN LATERAL (SELECT * FROM gpu_job_history j
     WHERE j.tenant = t.tenant AND (j.enqueued_at, j.id) < (%(before)s::timestamptz, %(before_id)s::uuid)
        AND (%(states)s::text[] IS NULL
            OR %(states)s::text[] && '{succeeded,failed,cancelled,expired}' AND j.state = ANY(%(states)s::text[]))
        AND (%(project)s::text IS NULL OR j.project = %(project)s::text)
        AND (%(pool)s::text IS NULL OR j.pool = %(pool)s::text)
        AND (%(user)s::text IS NULL OR j.user_name = %(user)s::text)
        AND (%(name)s::text IS NULL OR j.name = %(name)s::text)
        AND (%(group)s::uuid IS NULL OR j.group_id = %(group)s::uuid)
     ORDER BY j.enqueued_at DESC, j.id DESC LIMIT %(limit)s::int) own)
) merged
    ORDER BY enqueued_at DESC, id DESC LIMIT %(limit)s::int) wanted
) page
WHERE bytes IS NULL OR bytes < %(bytes)s ORDER BY enqueued_at DESC, id DESC
