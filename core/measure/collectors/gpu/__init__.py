"""Sources of GPUs: one file per vendor or interface, and what jobs use of them."""
