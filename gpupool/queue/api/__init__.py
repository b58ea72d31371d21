"""The queue over HTTP: requests in, jobs and problems out.

It turns requests into values of `gpupool.queue.records`, asks `domain` and `store`, and writes answers. It
must not hold SQL or decide which job runs.
"""
