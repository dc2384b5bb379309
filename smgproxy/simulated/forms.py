"""Forms as simulated workers read them: whole, and trusting their sender."""

from smgproxy.simulated.bodies import BadAsk
from smgproxy.wire.multipart import FormReader, MultipartError


class _Form:
    """Keeps the parts of a form by their names, the last of each."""

    def __init__(self) -> None:
        self.parts: dict[bytes, bytearray] = {}
        self._part = bytearray()

    def on_part(
        self, name: bytes, filename: bytes | None, content_type: bytes | None
    ) -> None:
        self._part = self.parts[name] = bytearray()

    def on_data(self, data: bytes) -> None:
        self._part += data

    def on_part_end(self) -> None:
        pass


def parts_of(body: bytes | bytearray) -> dict[bytes, bytearray]:
    """The parts of a form; its boundary is read off it, as it begins with that."""
    form = _Form()
    boundary = bytes(body[2 : max(2, body.find(b"\r\n"))])
    try:
        reader = FormReader(boundary, form)
        reader.feed(bytes(body))
        reader.finish()
    except MultipartError as error:
        raise BadAsk(str(error)) from None
    return form.parts
