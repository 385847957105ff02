"""``python -m nutime`` is ``nutime``; ``torchrun -m nutime`` starts it in many processes."""

from nutime.cli.main import main

main()
