"""The queue's web pages: pools and their users, the queue, jobs, shares and budgets.

Rendered by the server, whole without JavaScript. They show what the API would answer to the same credential.
This package must not hold SQL, decide which job runs, or be imported by the API.
"""
