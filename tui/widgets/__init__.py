"""What screens are made of: tables, panes, lines of text."""
