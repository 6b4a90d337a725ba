"""What outputs may be: `token_rules` look at the ids so far, an `automaton` remembers what it needs to know of them."""
