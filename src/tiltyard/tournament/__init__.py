"""Judged tournaments: cached answers of N entrants, judged in both orders, rated, and kept in a run folder."""
