"""The arithmetic: arrays in, values out; no files, no clock, no terminal."""

from tiltyard.ratings.scale import LOGITS_PER_POINT, POINTS_PER_LOGIT

__all__ = ["LOGITS_PER_POINT", "POINTS_PER_LOGIT"]
