"""The head's key-value store: one namespace level, create-once, prefix reads. Each call is atomic."""


class KeyValues:
    """Values in memory; lost with a head that has no storage."""

    def __init__(self) -> None:
        self._values: dict[tuple[bytes, bytes], bytes] = {}

    def put(self, namespace: bytes, key: bytes, value: bytes, *, overwrite: bool) -> bool:
        """Store a value; False = the key was there already and ``overwrite`` is not set."""
        if not overwrite and (namespace, key) in self._values:
            return False
        self._values[namespace, key] = value
        return True

    def get(self, namespace: bytes, key: bytes) -> bytes | None:
        """Return a stored value."""
        return self._values.get((namespace, key))

    def under(self, namespace: bytes, prefix: bytes) -> dict[bytes, bytes]:
        """Return the stored values whose keys start with ``prefix``."""
        return {
            key: value
            for (space, key), value in self._values.items()
            if space == namespace and key.startswith(prefix)
        }
