"""Keys and limits: no way in without a key, no more than the limits."""

import secrets
from pathlib import Path

import pytest

from tram.errors import InputError
from tram.service.errors import Problem
from tram.service.keys import Client, Keys, Limits, QuotaExceeded, Usage

KEY = "0123456789abcdef-right"
SHA256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"  # of `test`


def load(tmp_path: Path, text: str) -> Keys:
    path = tmp_path / "keys.yaml"
    path.write_text(text)
    return Keys.load(path, Limits(characters=7))


def test_ten_thousand_wrong_keys_and_no_way_in(tmp_path: Path) -> None:
    keys = load(tmp_path, f"keys:\n  - {{name: a, key: {KEY}}}\n  - {{name: b, sha256: {SHA256}}}\n")
    wrong = [secrets.token_hex(11) for _ in range(9_990)]
    wrong += [KEY[:-1], KEY + "x", KEY.upper(), f" {KEY}", "test ", SHA256, "\ud800", "0", "null", "*"]
    for key in wrong:
        with pytest.raises(Problem) as refusal:
            keys.find(key)
        assert refusal.value.status == 403
    assert keys.find(KEY).owner != keys.find("test").owner
    assert KEY not in keys.find(KEY).owner


def test_every_key_is_compared_whichever_matches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = "".join(f"  - {{name: k{n}, key: {KEY}{n}}}\n" for n in range(5))
    keys = load(tmp_path, f"keys:\n{entries}")
    compared = 0
    from hmac import compare_digest

    def counted(one: bytes, other: bytes) -> bool:
        nonlocal compared
        compared += 1
        return compare_digest(one, other)

    monkeypatch.setattr("hmac.compare_digest", counted)
    for n in range(5):
        keys.find(f"{KEY}{n}")
    assert compared == 25


def test_limits_come_from_the_entry_or_the_defaults(tmp_path: Path) -> None:
    keys = load(tmp_path, f"keys:\n  - {{name: a, key: {KEY}, sessions: 3}}\n")
    assert (keys.find(KEY).limits.sessions, keys.find(KEY).limits.characters) == (3, 7)
    assert Keys.load(None, Limits()).find(None).owner == "anonymous"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("keys: []\n", "keys"),
        ("keys:\n  - {name: a}\n", "either its `key` or its `sha256`"),
        ("keys:\n  - {name: a, key: short}\n", "shorter than 16"),
        ("keys:\n  - {name: a, sha256: abc}\n", "64 hexadecimal"),
        (f'keys:\n  - {{name: a, key: "{KEY}\\ud800"}}\n', "a lone surrogate"),
        (f"keys:\n  - {{name: a, key: {KEY}}}\n  - {{name: b, key: {KEY}}}\n", "the same as an earlier one"),
        (f"keys:\n  - {{name: a, key: {KEY}, request: 3}}\n", "unknown key"),
        ("- a\n", "contains no settings"),
    ],
)
def test_bad_files_of_keys_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load(tmp_path, text)


def test_requests_and_characters_are_counted_in_their_windows() -> None:
    now = 1e9
    usage = Usage(lambda: now)
    client = Client("one", Limits(requests_per_minute=2, characters=5, characters_per_day=8))
    other = Client("two", client.limits)
    usage.count_request(client)
    usage.count_request(client)
    with pytest.raises(Problem, match="Slowdown: 2 per 1 minute") as refusal:
        usage.count_request(client)
    assert refusal.value.retry_after is not None
    now += refusal.value.retry_after
    usage.count_request(client)
    usage.count_request(other)
    with pytest.raises(Problem, match=r"request \(6\) exceeds text limit \(5\)"):
        usage.count_characters(client, 6)
    usage.count_characters(client, 5)
    with pytest.raises(QuotaExceeded):
        usage.count_characters(client, 4)
    assert usage.characters(client) == (5, 8)
    now += 86_400
    usage.count_characters(client, 4)
    assert usage.characters(client) == (4, 8)
