"""A live cluster -> its environment file, by way of `gpupool.adopt.convert`."""
