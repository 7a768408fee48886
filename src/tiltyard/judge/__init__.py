"""Language models as judges: asking them, their verdicts, tournaments, and placing one model among many."""
