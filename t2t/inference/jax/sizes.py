"""Sizes that batches and constraints are padded to: JAX compiles a program for each."""

from t2t.data.reading.batching import padded_size


def padded_rows(rows: int) -> int:
    """Returns the number of rows that a batch of `rows` is padded to: a power of two, or one and a half of it.

    >>> [padded_rows(rows) for rows in (1, 2, 3, 4, 5, 9, 13, 100)]
    [1, 2, 3, 4, 6, 12, 16, 128]
    """
    return padded_size(rows, parts=2)


def padded_length(length: int) -> int:
    """Returns the length that rows of `length` are padded to: a multiple of 8, for long rows a larger one.

    >>> [padded_length(length) for length in (1, 8, 9, 33, 65, 130, 1000)]
    [8, 8, 16, 40, 80, 160, 1024]
    """
    return padded_size(length, parts=4, least=8)


def padded_states(states: int) -> int:
    """Returns the number of states that constraints with `states` are padded to: a multiple of 32, as `padded_rows`.

    >>> [padded_states(states) for states in (3, 33, 65, 130, 1000)]
    [32, 64, 96, 192, 1024]
    """
    return padded_size(states, parts=2, least=32)


def padded_edges(edges: int) -> int:
    """Returns the number of edges of a state that constraints with `edges` are padded to; 0 stays 0.

    >>> [padded_edges(edges) for edges in (0, 1, 4, 5, 10, 17, 1000)]
    [0, 4, 4, 8, 12, 24, 1024]
    """
    return padded_size(edges, parts=2, least=4) if edges else 0
