"""How one job is started, limited, queued and ended: the shim as its starter sees it, and the record of its end."""
