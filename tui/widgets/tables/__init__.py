"""The tables of single screens: their columns, their order and their cells."""
