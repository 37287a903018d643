"""Alert rules, the states they lead to, and the messages about them. Pure, except for the senders in actions/."""
