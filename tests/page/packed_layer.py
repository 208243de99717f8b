"""Reads packed layers as the browser does, with an independent implementation: one string of bits."""

import json

import numpy as np


class PackedLayer:
    def __init__(self, content: bytes):
        length = int.from_bytes(content[:4], "little")
        self.header = json.loads(content[4 : 4 + length])
        self.body = content[4 + length :]

    def array(self, name, group):
        return _group(self.header["arrays"][name], self.body, group)

    def visible(self, queries, keys):
        visible = self.header["visible"]
        if visible is None:
            return np.ones((queries, keys), dtype=bool)
        if "mask" in visible:
            rows = [np.unpackbits(np.frombuffer(bytes.fromhex(row), np.uint8), count=keys) for row in visible["mask"]]
            return np.array(rows, dtype=bool)
        key = np.arange(keys)
        return np.array([(key >= start) & (key < stop) for start, stop in zip(visible["start"], visible["stop"], strict=True)])

    def maps(self, head, queries, keys):
        arrays, heads = self.header["arrays"], self.header["heads"]

        def read(name):
            return self.array(name, head * len(arrays[name]["bits"]) // heads)

        visible = self.visible(queries, keys)
        raw = None  # not kept of long texts
        if "weights" in arrays:
            raw = read("weights")
        elif "query" in arrays:
            logits = np.where(visible, read("query") @ read("key").T * self.header["scaling"], -np.inf)
            raw = np.exp(logits - logits.max(-1, keepdims=True))
            raw /= raw.sum(-1, keepdims=True)
        basis = read("basis")
        coordinates = read("coordinates") if "coordinates" in arrays else raw @ basis
        effective = np.where(visible, coordinates @ basis.T, 0)
        if raw is None:
            return {"effective": effective}
        written = basis @ read("gram") @ basis.T  # the products of what keys write
        products = raw @ written
        contribution = raw * products / (products * raw).sum(-1, keepdims=True)
        return {"raw": raw, "effective": effective, "null": raw - effective, "contribution": contribution}


def unpack(packed, content):
    """All groups of an array."""
    return np.stack([_group(packed, content, group) for group in range(len(packed["bits"]))])


def _group(packed, content, group):
    rows, columns = packed["shape"]
    bits, start = packed["bits"][group], packed["start"] + packed["starts"][group]
    steps = np.frombuffer(content, "<f4", columns, start)
    digits = np.unpackbits(np.frombuffer(content, np.uint8, offset=start + 4 * columns), count=rows * columns * bits)
    numbers = [int("".join(map(str, digit)), 2) - 2 ** (bits - 1) for digit in digits.reshape(-1, bits).tolist()]
    return np.array(numbers, dtype=np.float64).reshape(rows, columns) * steps
