"""The fast path of `run` and `submit`: no click, few imports."""
