"""Who a client is: API keys from a file, one `NAME KEY` a line.

A key is compared with all keys in constant time and never kept: only its digest is. What a client
may see of others is decided by its name, and the salt keeps the prefix cache of one key apart from
that of another, because the time of a hit tells what others have asked.
"""

import hashlib
import hmac
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import structlog

from ssd.core.errors import ConfigError, NoCapacity, Unauthenticated

MIN_KEY_LEN = 16
_BEARER = "bearer "
log = structlog.get_logger()

Metadata = Iterable[tuple[str, str | bytes]]


@dataclass(frozen=True, slots=True)
class KeyOwner:
    """A client by its key's name; without keys everybody is the same nobody."""

    name: str = ""
    cache_salt: str = ""


NOBODY = KeyOwner()


class ApiKeys:
    """The keys of a file, read again when it changes; no file lets everybody in."""

    def __init__(self, file: str | None, *, max_sessions: int | None = None) -> None:
        """Raises ConfigError when the file cannot be read or has a wrong line."""
        self._file = None if file is None else Path(file).expanduser()
        self._max_sessions = max_sessions
        self._num_running: Counter[str] = Counter()
        self._stamp: int | None = None
        self._owners: dict[bytes, KeyOwner] = {}
        if self._file is not None:
            self._reload(self._file)

    def owner_of(self, metadata: Metadata) -> KeyOwner:
        """The owner of the key in `authorization: Bearer KEY` or `x-api-key: KEY`.

        Raises:
            Unauthenticated: there is no key, or none that is known.
        """
        if self._file is None:
            return NOBODY
        self._reload_if_changed(self._file)
        shown = _key_in(metadata)
        if shown is None:
            raise Unauthenticated("an API key is needed: send authorization: Bearer KEY")
        digest = _digest(shown)
        found = [owner for known, owner in self._owners.items() if _equal(known, digest)]
        if not found:
            raise Unauthenticated("the API key is not known here")
        return found[0]

    @contextmanager
    def running(self, owner: KeyOwner, num_sessions: int) -> Iterator[None]:
        """Count sessions of a key for as long as the block runs.

        Raises:
            NoCapacity: the key has as many as one may have.
        """
        limit, running = self._max_sessions, self._num_running[owner.name]
        if self._file is not None and limit is not None and running + num_sessions > limit:
            raise NoCapacity(
                f"{running} sessions of this key run or wait, {num_sessions} more would exceed "
                f"its limit of {limit}"
            )
        self._num_running[owner.name] += num_sessions
        try:
            yield
        finally:
            self._num_running[owner.name] -= num_sessions

    def _reload_if_changed(self, file: Path) -> None:
        try:
            if file.stat().st_mtime_ns != self._stamp:
                self._reload(file)
        except (OSError, ConfigError) as error:
            log.error("API keys not read again", reason=str(error))

    def _reload(self, file: Path) -> None:
        try:
            stamp = file.stat().st_mtime_ns
            lines = file.read_text("utf-8").splitlines()
        except (OSError, UnicodeError) as error:
            raise ConfigError(f"cannot read the API keys in {file}: {error}") from error
        entries = [line.split() for line in lines if line.strip() and not line.startswith("#")]
        owners = {}
        for number, entry in enumerate(entries, start=1):
            if len(entry) != 2 or len(entry[1]) < MIN_KEY_LEN:
                raise ConfigError(
                    f"entry {number} of {file} must be a name and a key of {MIN_KEY_LEN} "
                    "characters or more"
                )
            name, key = entry
            owners[_digest(key.encode())] = KeyOwner(name, _salt(key.encode()))
        if len(owners) < len(entries):
            raise ConfigError(f"two entries of {file} have the same key")
        self._owners, self._stamp = owners, stamp


def _key_in(metadata: Metadata) -> bytes | None:
    for name, value in metadata:
        words = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        if name == "authorization" and words.lower().startswith(_BEARER):
            return words[len(_BEARER) :].strip().encode()
        if name == "x-api-key":
            return words.strip().encode()
    return None


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()


def _equal(known: bytes, given: bytes) -> bool:
    return hmac.compare_digest(known, given)


def _salt(key: bytes) -> str:
    """Nobody can guess it from the name, and the key cannot be had from it."""
    return hmac.digest(key, b"ssd prefix cache", "sha256").hex()[:32]
