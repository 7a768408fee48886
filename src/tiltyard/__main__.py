"""`python -m tiltyard` is the command `tiltyard`."""

from tiltyard.cli.main import main

if __name__ == "__main__":
    main()
