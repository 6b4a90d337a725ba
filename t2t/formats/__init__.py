"""Models of other toolkits and programs: importers read them, exporters write runs as such.

`exporter.py` and `importer.py` say what each is asked for and gives, `built_in.py` registers those of t2t, and
`exporting.py` writes an export and keeps it if it agrees with its run (`parity.py`). Each toolkit has a file or a
folder: names in both directions in `mapping.py`, reading in `read.py`, writing in `write.py`.
"""
