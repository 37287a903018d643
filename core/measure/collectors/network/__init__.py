"""Network traffic of jobs: the counters of a network namespace of their own, or the TCP bytes of their sockets."""
