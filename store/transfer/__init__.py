"""Import jobs from the files of other programs, and export them: one module per format."""
