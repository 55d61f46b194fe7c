"""The kernel's table of mounts."""

from gpuherd_agent.sensors.mount_table import parse_mount_points

TABLE = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
40 22 0:35 / /scratch rw - nfs4 files:/s rw,hard
41 22 0:36 / /a\\040b\\134c rw - nfs4 files:/t rw
garbage
"""


def test_points_are_read_with_their_escapes_undone() -> None:
    assert parse_mount_points(TABLE) == {"/", "/scratch", "/a b\\c"}


def test_nothing_is_mounted_in_an_empty_table() -> None:
    assert parse_mount_points("") == frozenset()
