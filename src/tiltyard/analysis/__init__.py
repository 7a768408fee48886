"""What follows from what was observed: boards, and decisions between models."""
