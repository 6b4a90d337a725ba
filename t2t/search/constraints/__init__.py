"""Constraints on outputs: `token_rules` read the ids so far, an `automaton` keeps a state for each hypothesis."""
