"""Generated data: written once, read at random, cut into batches; numpy only."""
