"""Results for texts of clients that are remembered."""

from charonia_runtime.wires.short_texts import remembering_short


def test_only_short_texts_are_remembered():
    asked = []

    def length(text: bytes) -> int:
        asked.append(len(text))
        return len(text)

    known = remembering_short(length)
    assert [known(bytes(size)) for size in (3, 256, 257, 3, 256, 257)] == [3, 256, 257, 3, 256, 257]
    assert asked == [3, 256, 257, 257]
