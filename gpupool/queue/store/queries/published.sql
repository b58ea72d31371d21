UPDATE gpu_events SET published_at = now() WHERE position = ANY(%(positions)s::bigint[]) AND published_at IS NULL
