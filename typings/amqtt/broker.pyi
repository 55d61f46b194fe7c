from amqtt.adapters import ReaderAdapter, WriterAdapter
from amqtt.contexts import BrokerConfig
from amqtt.mqtt.protocol.broker_handler import BrokerProtocolHandler
from amqtt.session import Session

class Broker:
    retained_messages: dict[str | None, object]
    subscriptions: dict[str, list[tuple[Session, int]]]
    def __init__(self, config: BrokerConfig) -> None: ...
    async def start(self) -> None: ...
    async def shutdown(self) -> None: ...
    async def retain_message(
        self,
        source_session: Session | None,
        topic_name: str | None,
        data: bytes | bytearray | None,
        qos: int | None = None,
    ) -> None: ...
    async def _publish_retained_messages_for_subscription(
        self, subscription: tuple[str, int], session: Session
    ) -> None: ...
    async def _initialize_client_session(
        self, reader: ReaderAdapter, writer: WriterAdapter, remote_address: str, remote_port: int
    ) -> tuple[BrokerProtocolHandler, Session]: ...
