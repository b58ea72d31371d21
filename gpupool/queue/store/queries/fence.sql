-- Who takes over has to wait until this transaction has ended.
SELECT epoch FROM gpu_leader WHERE role = %(role)s AND epoch = %(epoch)s FOR SHARE
