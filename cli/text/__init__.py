"""Tables, blocks and pages of text on standard output."""
