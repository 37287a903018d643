"""The fast path of `run` and `submit`: without click, and with few imports."""
