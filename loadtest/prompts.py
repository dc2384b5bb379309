"""What routing is asked about by the measurements that need no gateway."""

from __future__ import annotations

from collections.abc import Callable, Sequence


class Given:
    """A body whose parts are at hand, for policies to ask about."""

    def __init__(
        self,
        read_text: Callable[[], str] = str,
        ids: Sequence[int] | None = None,
        rid: str | None = None,
        salt: str | None = None,
    ) -> None:
        self.text = read_text
        self._ids = ids
        self._rid = rid
        self._salt = salt

    def token_ids(self) -> Sequence[int] | None:
        """The prompt's token ids."""
        return self._ids

    def rid(self) -> str | None:
        """The request's own id."""
        return self._rid

    def cache_fields(self) -> Sequence[str | None]:
        """What sets its cache entries apart."""
        return (self._salt,)
