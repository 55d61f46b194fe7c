"""Why a session with the broker ended, in a closed set of words for metrics and logs."""

import enum
from typing import Final, TypeVar

import aiomqtt
from paho.mqtt.reasoncodes import ReasonCode

E = TypeVar("E", bound=BaseException)


class Why(enum.StrEnum):
    """Reasons, by what a person would look at next."""

    UNREACHABLE = "unreachable"
    NOT_AUTHORIZED = "not_authorized"
    REFUSED = "refused"
    CLOSED = "closed"
    """The broker closed a session that stood: it stopped, or another client took our name."""
    SILENT = "silent"
    """No answer within the keepalive or within a call's time."""


#: Codes of MQTT 5 that paho also maps those of 3.1.1 to. Source: paho.mqtt.client,
#: convert_connack_rc_to_reason_code and convert_disconnect_error_code_to_reason_code.
_BY_NAME: Final = {
    "Bad user name or password": Why.NOT_AUTHORIZED,
    "Not authorized": Why.NOT_AUTHORIZED,
    "Keep alive timeout": Why.SILENT,
}


def why(error: BaseException | None) -> Why:
    """Return the reason behind an error that ended or prevented a session."""
    seen = error
    while seen is not None:
        if isinstance(seen, aiomqtt.exceptions.MqttConnectError):
            return _BY_NAME.get(_name(seen.rc), Why.REFUSED)
        if isinstance(seen, aiomqtt.MqttCodeError):
            return _BY_NAME.get(_name(seen.rc), Why.CLOSED)
        if str(seen) == "Operation timed out":
            return Why.SILENT
        seen = seen.__cause__
    return Why.UNREACHABLE


def leaf(group: BaseExceptionGroup[E]) -> E:
    """Return the first error in a group of groups; aiomqtt chains what is behind it as its cause."""
    first = group.exceptions[0]
    return leaf(first) if isinstance(first, BaseExceptionGroup) else first


def _name(code: ReasonCode | int | None) -> str:
    return str(code) if isinstance(code, ReasonCode) else ""
