"""A team's own verdicts on pairs of answers: which items, who reviews what, labels, agreement, what they change.

A review is an arena whose log says so (`ReviewSet`): every item is a prompt with two answers, and reviewers are voters.
"""
