"""The demo: the main job on one machine, with a real Ray and simulated GPUs.

It is shipped, starts only what it stops again, and judges by Ray's own state what happened.
"""
