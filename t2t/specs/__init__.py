"""What problems, data and models tell each other: kinds and sizes of features. Start with `features`."""
