"""Regular expressions over texts: their `syntax`, and an `automaton` over bytes and over the ids of a vocabulary."""
