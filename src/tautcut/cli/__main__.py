"""`python -m tautcut.cli`."""

from tautcut.cli import main

main()
