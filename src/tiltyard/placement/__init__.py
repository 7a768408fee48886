"""Placing one model among human battles: choose whom to meet, judge, rate together, and keep everything."""
