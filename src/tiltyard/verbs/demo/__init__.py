"""The demo: shipped prompts, recorded answers and verdicts as a tournament, a report and a live arena."""
