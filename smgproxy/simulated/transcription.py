"""Transcriptions: words that follow from the bytes of a file.

Pure: a form in, a body out, or a `BadAsk`.
"""

from smgproxy.simulated.bodies import BadAsk
from smgproxy.simulated.engine import Limits, Prompt, digest, generate
from smgproxy.simulated.scoring import Scored
from smgproxy.wire.multipart import FormReader, MultipartError

BYTES_PER_TOKEN = 1024


class _Form:
    """Keeps the parts of a form by their names."""

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


def transcription(body: bytes | bytearray, served_model: str, ident: str) -> Scored:
    """Say what is heard in a file; the same file always says the same.

    The boundary is read off the form, which begins with it.
    """
    form = _Form()
    boundary = bytes(body[2 : max(2, body.find(b"\r\n"))])
    try:
        reader = FormReader(boundary, form)
        reader.feed(bytes(body))
        reader.finish()
    except MultipartError as error:
        raise BadAsk(str(error)) from None
    file = form.parts.get(b"file")
    if not file:
        raise BadAsk("file: Field required")
    seed = digest((file.decode("latin-1"),)).seed
    size = max(1, len(file) // BYTES_PER_TOKEN)
    heard = generate(Prompt(seed, size), 0, Limits(max_tokens=size + 4))
    usage = {"type": "tokens", "input_tokens": size, "output_tokens": size + 4}
    return Scored({"text": heard.text, "usage": usage}, size)
