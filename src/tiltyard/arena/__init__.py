"""The live arena: matchmaking lanes, the vote ledger and its store, projections, integrity. No pages."""
