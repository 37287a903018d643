"""`jobtop --demo`: a simulated machine."""
