"""The training engine: what one update is, what happens every n updates, and where it runs."""
