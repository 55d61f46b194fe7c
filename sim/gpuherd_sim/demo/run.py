"""Plays the demo: starts everything, looks twice a second, gives the cues, and removes what it started."""

from typing import Final

HARD_STOP_S: Final = 480.0
LOOK_S: Final = 0.25
BROKEN_GPU: Final = 5
DRIVER: Final = "driver"
