"""Plain data that problems, data and models share, e.g. kinds and sizes of features. Start with `features`."""
