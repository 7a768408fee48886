"""The arithmetic: arrays in, values out; no files, no clock, no terminal."""
