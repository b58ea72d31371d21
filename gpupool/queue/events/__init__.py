"""The queue's events as others read them: their envelope, and the bus that carries them."""
