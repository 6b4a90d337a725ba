"""Load a model once, decode many times: what is behind every decoder. Start with `translator`."""
