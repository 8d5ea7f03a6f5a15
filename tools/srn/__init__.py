"""A reader of schedule blobs that knows what docs/format.md says and nothing else."""
