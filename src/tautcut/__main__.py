"""`python -m tautcut` is the command `tautcut`."""

from tautcut.cli import main

main()
