"""The truth suite: loads of known cost, and the judgement of what was measured of them."""
