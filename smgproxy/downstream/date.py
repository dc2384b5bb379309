"""The Date header of every response, made once a second (RFC 9110 section 6.6.1)."""

from __future__ import annotations

from email.utils import formatdate
from time import time


class Date:
    """This second, in the form of the protocol."""

    __slots__ = ("_second", "_value", "_line")

    def __init__(self) -> None:
        self._second = 0
        self._value = b""
        self._line = b""

    def value(self) -> bytes:
        """The field value."""
        if int(time()) != self._second:
            self._renew()
        return self._value

    def line(self) -> bytes:
        """The whole field line of HTTP/1.1."""
        if int(time()) != self._second:
            self._renew()
        return self._line

    def _renew(self) -> None:
        self._second = second = int(time())
        self._value = formatdate(second, usegmt=True).encode()
        self._line = b"date: %b\r\n" % self._value


date = Date()
