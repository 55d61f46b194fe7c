"""Bounded decoding: what is no document of ours is dropped with a word for counting."""

import json

import pytest

from gpuherd.errors import WireInvalid
from gpuherd.holds import Hold, HoldKind
from gpuherd.names import ClusterName, HoldId, NodeName, PoolName
from gpuherd.wire.codec import MAX_BYTES, MAX_DEPTH, decode, digest, encode, parse
from gpuherd.wire.documents import Desired

HOLD = Hold(id=HoldId("h1"), owner="user:ann", kind=HoldKind.DRAIN, reason="fan", since=1.0, for_s=60.0)
DESIRED = Desired(
    cluster=ClusterName("c"),
    node=NodeName("n"),
    term=1,
    generation=2,
    serve=True,
    holds=(HOLD,),
    pool=PoolName("p"),
    pool_size=3,
)
FIELDS = json.loads(encode(DESIRED))


def test_a_document_survives_the_wire() -> None:
    assert decode(encode(DESIRED), Desired) == DESIRED


def test_equal_documents_are_equal_bytes() -> None:
    assert digest(encode(DESIRED)) == digest(encode(decode(encode(DESIRED), Desired)))


def test_an_unknown_field_of_a_newer_minor_version_is_left_out() -> None:
    assert decode(json.dumps({**FIELDS, "colour": "red"}).encode(), Desired) == DESIRED


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        pytest.param(b"", "syntax", id="empty"),
        pytest.param(b"\xff\xfe\x00", "syntax", id="binary"),
        pytest.param(b"nonsense", "syntax", id="no JSON"),
        pytest.param(b"[1]", "fields", id="no object"),
        pytest.param(b"{}", "version", id="no version"),
        pytest.param(json.dumps({**FIELDS, "v": 2}).encode(), "version", id="other major version"),
        pytest.param(b" " * (MAX_BYTES + 1), "oversize", id="oversize"),
        pytest.param(b"[" * (MAX_DEPTH + 1), "depth", id="deep list"),
        pytest.param(b'{"a":' * 40_000, "oversize", id="deep and oversize"),
        pytest.param(b'{"a":' * 10_000, "depth", id="deep object"),
        pytest.param(b'{"v":1,"v":1}', "duplicate_key", id="duplicate key"),
        pytest.param(b'{"v":1,"x":{"a":1,"a":2}}', "duplicate_key", id="duplicate key inside"),
        pytest.param(b'{"v":1,"x":NaN}', "number", id="NaN"),
        pytest.param(b'{"v":1,"x":-Infinity}', "number", id="infinity"),
        pytest.param(b'{"v":1,"x":1e999}', "number", id="overflow"),
        pytest.param(b'{"v":1,"x":' + b"9" * 5_000 + b"}", "number", id="endless integer"),
        pytest.param(json.dumps({**FIELDS, "term": -1}).encode(), "fields", id="negative term"),
        pytest.param(json.dumps({**FIELDS, "term": 2**60}).encode(), "fields", id="term out of range"),
        pytest.param(json.dumps({**FIELDS, "term": "1"}).encode(), "fields", id="wrong type"),
        pytest.param(json.dumps({**FIELDS, "serve": 1}).encode(), "fields", id="one is not true"),
        pytest.param(
            json.dumps({**FIELDS, "holds": FIELDS["holds"] * 65}).encode(), "fields", id="many holds"
        ),
        pytest.param(
            json.dumps({k: v for k, v in FIELDS.items() if k != "pool"}).encode(), "fields", id="missing"
        ),
    ],
)
def test_garbage_is_refused_with_a_word_for_counting(payload: bytes, reason: str) -> None:
    with pytest.raises(WireInvalid) as caught:
        decode(payload, Desired)
    assert caught.value.reason == reason


def test_brackets_inside_strings_do_not_count_as_depth() -> None:
    assert parse(json.dumps({"a": "[" * 100 + '\\"' + "{" * 100}).encode()) == {
        "a": "[" * 100 + '\\"' + "{" * 100
    }


def test_depth_up_to_the_bound_is_read() -> None:
    assert parse(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH) is not None
