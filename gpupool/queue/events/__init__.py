"""What the queue says to observers: the envelope of an event, and the bus that carries it.

Events inform. The database is the truth: nothing here may decide what becomes of a job.
"""
