"""`jobtop workflow`: one file a verb."""
