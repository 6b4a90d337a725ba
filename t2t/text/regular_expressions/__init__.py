"""Regular expressions over texts: their `syntax`, an `automaton` over bytes, and one over ids (`lifting`)."""
