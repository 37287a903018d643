"""One file per source of numbers, each the only door to its kernel interface or client library."""
