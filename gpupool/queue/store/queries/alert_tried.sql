UPDATE gpu_alerts SET sent_at = %(sent_at)s, due_at = %(due_at)s, tries = tries + 1, taken = %(taken)s
WHERE scope = %(scope)s AND name = %(name)s AND period = %(period)s AND threshold = %(threshold)s
    AND sent_at IS NULL
