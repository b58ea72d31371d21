INSERT INTO gpu_results (job, status, headers, body, truncated)
VALUES (%(job)s::uuid, %(status)s, %(headers)s::jsonb, %(body)s, %(truncated)s)
