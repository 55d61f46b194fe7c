import asyncio
from collections.abc import Callable

class BrokerProtocolHandler:
    _disconnect_waiter: asyncio.Future[object] | None
    handle_read_timeout: Callable[[], None]
