"""Care of the file: retention, merging, checking, copying."""
