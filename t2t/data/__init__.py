"""Generated data: written by `generation`, read and cut into batches by `reading`; numpy only.

Both know `manifest`, which describes a folder of data, `columns`, the layout of a feature of many examples, and
`npy_files`, in which they lie.
"""
