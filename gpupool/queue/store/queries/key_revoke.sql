UPDATE gpu_keys SET revoked_at = %(now)s WHERE id = %(id)s AND revoked_at IS NULL RETURNING id
