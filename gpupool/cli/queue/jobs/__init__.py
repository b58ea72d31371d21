"""`gpupool jobs`: what people type, as requests to the queue, and what the queue answers, in words."""
