"""The network of the paper's Section 3; knows torch and nothing of training or files."""
