"""The truth suite: loads of known cost, and checks of what was measured of them."""
