UPDATE gpu_identity SET trouble = %(trouble)s::jsonb
