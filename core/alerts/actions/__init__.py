"""How an alert reaches people: one file for each way."""
