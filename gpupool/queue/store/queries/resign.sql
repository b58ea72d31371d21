-- A new epoch, so that what the holder still tries to write is refused.
UPDATE gpu_leader SET holder = '', epoch = epoch + 1, expires_at = '-infinity'
WHERE role = %(role)s AND holder = %(holder)s
