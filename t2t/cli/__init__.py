"""Commands, one file each: `build_flags()` and `main(argv) -> exit status`. Begin with `trainer`.

`common` is what all of them share: parsing, one-line errors, the log. Flags that several have are in `*_flags`, the
file of `--config` in `config`, and Tensor2Tensor's spellings in `tensor2tensor`.
"""
