-- One transaction at a time settles what comes after jobs of a tenant: two that end the last two of a job's
-- dependencies would each see the other's job as not over.
SELECT pg_advisory_xact_lock(hashtext('gpupool dependents'), hashtext(%(tenant)s))
