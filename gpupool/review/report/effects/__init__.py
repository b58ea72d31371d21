"""What a change does to nodes and to what runs on them; `gpupool.review.report.effects.order` combines
them."""
