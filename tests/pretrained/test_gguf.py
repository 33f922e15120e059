"""Reading GGUF files, against the package `gguf`, which also writes those that are tried here."""

import struct
from itertools import pairwise

import gguf
import numpy as np
import pytest
import torch
from devices import nothing_made_elsewhere
from gemma import gemma_or_skip
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlib.pretrained.gguf import GGUF, PACKINGS
from attnlib.pretrained.published import smollm2_file

SIZES = {packing.name: packing.size for packing in PACKINGS.values()}
PACKED = [name for name in SIZES if name != "F32"]


def packed_at_random(packing, rows, blocks, seed=0):
    """Bytes of all values, and so scales that no sane model has: (rows, blocks · bytes of one)."""
    size = (rows, blocks * SIZES[packing])
    return np.random.default_rng(seed).integers(256, size=size, dtype=np.uint8)


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def write(path, tensors, metadata=(), alignment=None):
    """A GGUF file of tensors, name -> (bytes or numbers, packing), by the package."""
    writer = gguf.GGUFWriter(path, "llama")
    if alignment is not None:
        writer.add_custom_alignment(alignment)
    for add, key, value in metadata:
        getattr(writer, f"add_{add}")(key, value)
    for name, (content, packing) in tensors.items():
        raw = None if packing == "F32" else gguf.GGMLQuantizationType[packing]
        writer.add_tensor(name, content, raw_dtype=raw)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def assert_same_tensor(ours, theirs):
    """Bit for bit what the package unpacks."""
    with np.errstate(invalid="ignore"):  # ∞ − ∞
        expected = gguf.dequantize(theirs.data, theirs.tensor_type)
    assert ours.dtype == torch.float32
    assert ours.shape == expected.shape == tuple(reversed(theirs.shape.tolist()))
    assert np.array_equal(ours.numpy(), expected, equal_nan=True), theirs.name


@pytest.fixture
def small(tmp_path):
    tensors = {
        "a": (packed_at_random("Q4_1", 3, 2), "Q4_1"),
        "b": (numbers(5), "F32"),
        "c": (packed_at_random("Q6_K", 2, 1), "Q6_K"),
        "d": (numbers(8), "F32"),  # to the end: 32 bytes need no padding
    }
    metadata = [("uint32", "n", 7), ("array", "words", ["é", ""]), ("array", "codes", [1, 3])]
    return write(tmp_path / "small.gguf", tensors, metadata)


# --- the published files ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def smollm2():
    """SmolLM2's file, read by us and by the package."""
    ours = smollm2_file()
    return ours, gguf.GGUFReader(ours.path)


@pytest.mark.ci
def test_smollm2s_file_is_read_as_the_reference_reads_it(smollm2):
    """All layers, converted: `test_weights_are_those_that_transformers_makes_of_the_file`."""
    ours, theirs = smollm2
    assert list(ours) == [tensor.name for tensor in theirs.tensors]
    assert len(ours) == 272
    for tensor in theirs.tensors[:12]:
        assert_same_tensor(ours[tensor.name], tensor)


@pytest.mark.slow
def test_all_metadata_of_smollm2_equal_the_references(smollm2):
    ours, theirs = smollm2
    fields = theirs.fields.items()
    assert ours.metadata == {
        name: field.contents() for name, field in fields if not name.startswith("GGUF.")
    }


@pytest.mark.long
def test_gemmas_pieces_are_read_as_the_reference_reads_the_whole(tmp_path):
    ours, whole = gemma_or_skip(), tmp_path / "whole.gguf"
    with whole.open("wb") as file:
        for path in ours.paths:
            file.write(path.read_bytes())
    theirs = gguf.GGUFReader(whole)
    for name, field in theirs.fields.items():
        assert name.startswith("GGUF.") or ours.metadata[name] == field.contents(), name
    assert list(ours) == [tensor.name for tensor in theirs.tensors]
    for tensor in theirs.tensors:
        assert_same_tensor(ours[tensor.name], tensor)


# --- files of every make ----------------------------------------------------------------------


@settings(deadline=None, max_examples=40)
@given(
    rows=st.integers(1, 4),
    blocks=st.integers(1, 3),
    packing=st.sampled_from(PACKED),
    alignment=st.sampled_from([None, 8, 64]),
    word=st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
    cuts=st.lists(st.floats(0, 1), max_size=3),
    seed=st.integers(0, 99),
)
def test_what_the_package_writes_is_read_whole_and_in_pieces(
    tmp_path_factory, rows, blocks, packing, alignment, word, cuts, seed
):
    folder = tmp_path_factory.mktemp("gguf")
    metadata = [
        ("float32", "f", 1.5),
        ("float64", "d", 0.1),
        ("bool", "b", True),
        ("int64", "i", -5),
        ("uint8", "u", 200),
        ("string", "s", word),
        ("array", "many", [word, "x"]),
    ]
    plain = numbers(7, seed=seed)
    tensors = {
        "first": (packed_at_random(packing, rows, blocks, seed), packing),
        "second": (plain, "F32"),
    }
    path = write(folder / "file.gguf", tensors, metadata, alignment)
    content = path.read_bytes()
    borders = [0, *sorted(int(cut * len(content)) for cut in cuts), len(content)]
    pieces = []
    for number, (start, end) in enumerate(pairwise(borders)):
        pieces.append(folder / f"piece{number}")
        pieces[-1].write_bytes(content[start:end])
    theirs = gguf.GGUFReader(path)
    for ours in (GGUF(path), GGUF(*pieces)):
        assert len(ours) == len(theirs.tensors)
        for tensor in theirs.tensors:
            assert_same_tensor(ours[tensor.name], tensor)
        assert np.array_equal(ours["second"].numpy(), plain)
        for _, key, value in metadata:
            assert ours.metadata[key] == value


@pytest.mark.parametrize("packing", PACKED)
def test_every_block_is_unpacked_as_the_reference_has_it(packing):
    blocks = packed_at_random(packing, 4_000, 1)
    unpack = {record.name: record.unpack for record in PACKINGS.values()}[packing]
    with np.errstate(invalid="ignore"):  # ∞ − ∞
        expected = gguf.dequantize(blocks, gguf.GGMLQuantizationType[packing])
    with nothing_made_elsewhere():
        ours = unpack(torch.from_numpy(blocks))
    assert np.array_equal(ours.numpy(), expected, equal_nan=True)
    assert np.isfinite(expected).mean() > 0.9, "too few numbers are compared"


# --- what is no such file ---------------------------------------------------------------------


def test_a_truncated_file_is_refused_wherever_it_ends(small):
    whole = small.read_bytes()
    cut = small.with_name("cut.gguf")
    for length in range(4, len(whole)):
        cut.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"^cut\.gguf .* it was not copied to the end$"):
            GGUF(cut)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"GGUF", b"GGML", r"begins with b'GGML', and a GGUF file with b'GGUF'"),
        (b"GGUF\3", b"GGUF\2", r"version 2, and only version 3"),
        (struct.pack("<I", 14), struct.pack("<I", 13), r"type 13, and read here are 0 \(F32\), 3"),
        (b"n" + struct.pack("<I", 4), b"n" + struct.pack("<I", 13), "the unknown type 13"),
    ],
)
def test_another_file_is_refused(small, old, new, message):
    whole = small.read_bytes()
    assert whole.count(old) == 1
    small.write_bytes(whole.replace(old, new))
    with pytest.raises(ValueError, match=message):
        GGUF(small)
