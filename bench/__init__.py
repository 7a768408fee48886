"""The benchmark: what Tiltyard needs beside its peers, on the same data, in one run.

`python -m bench` from the repository's root, or `make bench`. Nothing here is part of the package.
"""
