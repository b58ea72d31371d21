-- A tenant that an environment file had once, by its name or id.
SELECT tenant FROM tenant_gpu_policies WHERE tenant = %(named)s OR tenant_id::text = lower(%(named)s) LIMIT 1
