SELECT * FROM gpu_foreign_pods
