"""Networks, one file each, in `keras.ops` alone."""
