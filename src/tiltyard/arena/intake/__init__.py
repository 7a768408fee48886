"""What comes in and goes out in files: answers with their cleaning, votes of others, exports."""
