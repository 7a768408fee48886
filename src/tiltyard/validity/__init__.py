"""Rules about trust: agreement with people, coverage, badges, publication, fairness, churn, odd voters."""
