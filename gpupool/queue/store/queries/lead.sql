-- Become leader, or go on being it. The epoch grows whenever another holder takes over.
INSERT INTO gpu_leader AS l (role, holder, epoch, expires_at)
VALUES (%(role)s, %(holder)s, 1, clock_timestamp() + make_interval(secs => %(ttl_s)s))
ON CONFLICT (role) DO UPDATE SET
    holder = excluded.holder,
    epoch = CASE WHEN l.holder = excluded.holder AND l.expires_at > clock_timestamp()
        THEN l.epoch ELSE l.epoch + 1 END,
    expires_at = clock_timestamp() + make_interval(secs => %(ttl_s)s)
WHERE l.holder = excluded.holder OR l.expires_at <= clock_timestamp()
RETURNING epoch
