-- How far the output of an attempt has been read.
UPDATE gpu_attempts SET logged_until = %(until)s WHERE job = %(job)s::uuid AND attempt = %(attempt)s
