"""Commands, one file each: `build_flags()` and `main(argv) -> exit status`."""
