UPDATE gpu_callbacks SET due_at = %(due_at)s, tries = tries + 1 WHERE job = %(job)s::uuid
