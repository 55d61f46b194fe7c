"""Replay of a job trace against a fleet policy, in discrete events: the real ``decide`` or Ray's scheduler.

``trace`` and ``synthesis`` give jobs, ``faults`` what breaks, ``world`` is the fleet with its queue, ``run``
moves time, ``ours`` and ``ray_scheduler`` decide, ``report`` says what it cost. ``history`` decides recorded
snapshots again with other settings.
"""
