"""The benchmark: Tiltyard compared with its peers, on the same data, in one run.

`python -m bench` from the repository's root, or `make bench`. Nothing here is part of the package.
"""
