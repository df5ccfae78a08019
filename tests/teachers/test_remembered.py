import numpy as np

from foolsgold.models.remembered import Remembered


class Encode:
    def __init__(self, rows: int = 1):
        self.asked = []
        self._rows = rows

    def __call__(self, texts):
        self.asked.append(list(texts))
        return [np.full((self._rows, 2**18), len(text), np.float32) for text in texts]  # 1 MB a row


def values(arrays):
    return [int(array[0, 0]) for array in arrays]


def test_a_text_is_encoded_once_and_answers_come_in_order():
    encode = Encode()
    remembered = Remembered(encode)
    assert values(remembered(["a", "bb", "a"])) == [1, 2, 1]
    assert values(remembered(["ccc", "bb"])) == [3, 2]
    assert encode.asked == [["a", "bb"], ["ccc"]]
    assert remembered([]) == []


def test_what_was_unused_for_longest_is_forgotten_first():
    encode = Encode()
    remembered = Remembered(encode, megabytes=2)
    remembered(["a", "bb"])
    remembered(["a"])
    remembered(["ccc"])  # bb goes
    remembered(["a", "ccc"])
    remembered(["bb"])
    assert encode.asked == [["a", "bb"], ["ccc"], ["bb"]]


def test_more_than_can_be_held_is_answered_all_the_same():
    remembered = Remembered(Encode(rows=2), megabytes=1)
    assert values(remembered(["a", "bb", "a"])) == [1, 2, 1]
