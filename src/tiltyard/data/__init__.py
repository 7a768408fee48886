"""What was observed: battles, scores, and the bank of prompts and answers; the schemas of their files."""
