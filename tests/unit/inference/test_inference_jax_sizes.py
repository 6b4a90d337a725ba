"""Batches are padded to few sizes, and not by much."""

from t2t.inference.jax.sizes import padded_edges, padded_length, padded_rows, padded_states


def test_sizes_by_hand():
    assert [padded_rows(rows) for rows in (1, 2, 3, 4, 5, 7, 9, 13, 100)] == [1, 2, 3, 4, 6, 8, 12, 16, 128]
    assert [padded_length(length) for length in (1, 8, 9, 17, 33, 41, 65, 130, 1000)] == [
        8, 8, 16, 24, 40, 48, 80, 160, 1024,
    ]  # fmt: skip
    assert [padded_states(states) for states in (1, 32, 33, 65, 129)] == [32, 32, 64, 96, 192]
    assert [padded_edges(edges) for edges in (0, 1, 4, 5, 9, 17, 33)] == [0, 4, 4, 8, 12, 24, 48]


def test_few_sizes_and_little_padding():
    """At most a third of the rows and a fifth of a long row are padding; a size is padded to itself."""
    sizes = range(1, 2000)
    for padded, fewest, largest_share, count in ((padded_rows, 1, 1 / 3, 22), (padded_length, 8, 1 / 5, 30)):
        found = {size: padded(size) for size in sizes}
        assert all(size <= found[size] and padded(found[size]) == found[size] for size in sizes)
        assert all(found[size] - size < max(fewest, largest_share * found[size]) for size in sizes if size > 32)
        assert len(set(found.values())) <= count
