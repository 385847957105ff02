"""Self-supervised pretraining: BYOL, its loop and its checkpoints."""
