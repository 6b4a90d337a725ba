"""Search: from a function that scores the next token to whole hypotheses. Knows no model."""
