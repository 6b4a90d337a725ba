"""Sizes of the measured networks: those of the paper, and a small one to try the benchmark itself."""

SIZES = {
    "tiny": {"width": 64, "inner": 128, "layers": 2, "heads": 4, "dropout": 0.1},
    "base": {"width": 512, "inner": 2048, "layers": 6, "heads": 8, "dropout": 0.1},
    "big": {"width": 1024, "inner": 4096, "layers": 6, "heads": 16, "dropout": 0.3},
}
