"""Rating points and logits."""

import math

POINTS_PER_LOGIT = 400.0 / math.log(10.0)
"""Rating points per logit: 400 points are odds of 10 to 1, as in Elo."""

LOGITS_PER_POINT = math.log(10.0) / 400.0
