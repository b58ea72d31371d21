"""What a change does to nodes and to what runs on them; `gpupool.report.effects.order` combines them."""
