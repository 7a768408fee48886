"""Asking language models: one protocol, one small file per provider, batches with a journal, prices and budgets."""
