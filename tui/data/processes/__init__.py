"""The processes of the machine: read while they are shown, with the jobs they belong to."""
