"""What a job or the machine does at this moment, read when it is asked for."""
