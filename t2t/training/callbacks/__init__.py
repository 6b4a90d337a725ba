"""The periodic work of training, each kind a `keras.callbacks.Callback`.

The trainer calls `on_train_begin`, `on_train_batch_begin(update)`, `on_train_batch_end(update, logs)` and
`on_train_end(logs)`, where `update` is the number of updates done. Logs are passed at log steps and are empty between.
`CallEpochHooks` calls the epoch and test hooks of the caller's callbacks.
"""
