from collections.abc import Mapping

class ListenerConfig:
    def __init__(self, *, bind: str, max_connections: int) -> None: ...

class BrokerConfig:
    def __init__(
        self,
        *,
        listeners: Mapping[str, ListenerConfig],
        plugins: Mapping[str, Mapping[str, object]],
        session_expiry_interval: int,
        timeout_disconnect_delay: int,
    ) -> None: ...
