"""Reading GGUF files, against the package `gguf`, which also writes those that are tried here."""

import struct
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlib.pretrained.gguf import GGUF, PACKINGS, unpack_q4_1, unpack_q8_0
from attnlib.pretrained.published import smollm2_file

TYPES = {name: gguf.GGMLQuantizationType[name] for name in ("F32", "Q4_1", "Q8_0")}


def write(path, tensors, metadata=(), alignment=None):
    """A GGUF file of tensors, name -> (numbers, how to pack them), by the package."""
    writer = gguf.GGUFWriter(path, "llama")
    if alignment is not None:
        writer.add_custom_alignment(alignment)
    for add, key, value in metadata:
        getattr(writer, f"add_{add}")(key, value)
    for name, (numbers, packing) in tensors.items():
        packed = numbers if packing == "F32" else gguf.quantize(numbers, TYPES[packing])
        writer.add_tensor(name, packed, raw_dtype=None if packing == "F32" else TYPES[packing])
    for step in ("header", "kv_data", "tensors"):
        getattr(writer, f"write_{step}_to_file")()
    writer.close()
    return path


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.fixture
def small(tmp_path):
    tensors = {
        "a": (numbers(3, 64), "Q4_1"),
        "b": (numbers(5), "F32"),
        "c": (numbers(2, 32), "Q8_0"),
    }
    metadata = [("uint32", "n", 7), ("array", "words", ["é", ""]), ("array", "kinds", [1, 3])]
    return write(tmp_path / "small.gguf", tensors, metadata)


# --- the published file -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def published():
    """SmolLM2's file, read by us and by the package."""
    ours = smollm2_file()
    return ours, gguf.GGUFReader(ours.path)


def test_every_matrix_of_a_layer_of_smollm2_equals_the_references_bit_for_bit(published):
    """All layers, converted: `test_weights_are_those_that_transformers_makes_of_the_file`."""
    ours, theirs = published
    assert list(ours) == [tensor.name for tensor in theirs.tensors]
    assert len(ours) == 272
    for tensor in theirs.tensors[:12]:
        found = ours[tensor.name]
        expected = gguf.dequantize(tensor.data, tensor.tensor_type)
        assert found.dtype == torch.float32
        assert found.shape == expected.shape == tuple(reversed(tensor.shape.tolist()))
        assert np.array_equal(found.numpy(), expected), tensor.name


@pytest.mark.slow
def test_all_metadata_of_smollm2_equal_the_references(published):
    ours, theirs = published
    fields = {name: f for name, f in theirs.fields.items() if not name.startswith("GGUF.")}
    assert ours.metadata.keys() == fields.keys()
    for name, field in fields.items():
        assert ours.metadata[name] == field.contents(), name


# --- files of every make ----------------------------------------------------------------------


@settings(deadline=None, max_examples=25)
@given(
    rows=st.integers(1, 4),
    blocks=st.integers(1, 3),
    packing=st.sampled_from(sorted(TYPES)),
    alignment=st.sampled_from([None, 8, 64]),
    word=st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
    seed=st.integers(0, 99),
)
def test_what_the_package_writes_is_read(
    tmp_path_factory, rows, blocks, packing, alignment, word, seed
):
    path = tmp_path_factory.mktemp("gguf") / "file.gguf"
    first, second = numbers(rows, 32 * blocks, seed=seed), numbers(7, seed=seed)
    kinds = [("float32", "f", 1.5), ("bool", "b", True), ("int64", "i", -5), ("string", "s", word)]
    kinds += [("array", "many", [word, "x"]), ("uint8", "u", 200), ("float64", "d", 0.1)]
    write(path, {"one": (first, packing), "two": (second, "F32")}, kinds, alignment)
    ours, theirs = GGUF(path), gguf.GGUFReader(path)
    for tensor in theirs.tensors:
        expected = gguf.dequantize(tensor.data, tensor.tensor_type)
        assert np.array_equal(ours[tensor.name].numpy(), expected)
    assert np.array_equal(ours["two"].numpy(), second)
    for _, key, value in kinds:
        assert ours.metadata[key] == value


@pytest.mark.parametrize(("name", "unpack"), [("Q4_1", unpack_q4_1), ("Q8_0", unpack_q8_0)])
def test_every_byte_is_unpacked_as_the_reference_has_it(name, unpack):
    """Bytes of all values, and scales that no sane model has."""
    size = {p.name: p.size for p in PACKINGS.values()}[name]
    blocks = np.random.default_rng(0).integers(256, size=(4_000, size), dtype=np.uint8)
    with np.errstate(invalid="ignore"):  # ∞ − ∞
        expected = gguf.dequantize(blocks, TYPES[name])
    found = unpack(torch.from_numpy(blocks)).numpy()
    assert np.array_equal(found, expected, equal_nan=True)
    assert len(np.unique(blocks[:, 4:])) == 256


def test_it_is_a_mapping(small):
    found = GGUF(str(small))
    assert list(found) == ["a", "b", "c"]
    assert len(found) == 3
    assert "a" in found
    assert "x" not in found
    assert [tuple(weight.shape) for weight in found.values()] == [(3, 64), (5,), (2, 32)]
    assert found.metadata["words"] == ["é", ""]
    assert found.metadata["kinds"] == [1, 3]
    with pytest.raises(KeyError):
        found["x"]


# --- what is no such file ---------------------------------------------------------------------


def test_a_truncated_file_is_refused_wherever_it_ends(small):
    whole = small.read_bytes()
    end = GGUF(small)._table["c"]
    needed = end.start + end.size
    cut = small.with_name("cut.gguf")
    for length in range(4, needed):
        cut.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"^cut\.gguf .* it was not copied to the end$"):
            GGUF(cut)
    cut.write_bytes(whole[:needed])
    assert torch.equal(GGUF(cut)["c"], GGUF(small)["c"])


def changed(path: Path, old: bytes, new: bytes) -> Path:
    """A copy of a file in which something stands once, and is exchanged."""
    whole = path.read_bytes()
    assert whole.count(old) == 1
    other = path.with_name("other.gguf")
    other.write_bytes(whole.replace(old, new))
    return other


def test_another_file_is_refused(small, tmp_path):
    with pytest.raises(ValueError, match=r"it begins with b'GGML', and a GGUF file with b'GGUF'"):
        GGUF(changed(small, b"GGUF", b"GGML"))
    with pytest.raises(ValueError, match="it is of version 2, and only version 3 is read here"):
        GGUF(changed(small, b"GGUF\3", b"GGUF\2"))
    with pytest.raises(ValueError, match=r"packed as type 12, and read here are 0 \(F32\), 3 \(Q4"):
        GGUF(changed(small, struct.pack("<QQI", 64, 3, 3), struct.pack("<QQI", 64, 3, 12)))
    n = struct.pack("<Qc", 1, b"n")
    with pytest.raises(ValueError, match="a value of the unknown type 13"):
        GGUF(changed(small, n + struct.pack("<I", 4), n + struct.pack("<I", 13)))
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(ValueError, match=r"^empty cannot be read: it begins with b''"):
        GGUF(tmp_path / "empty")
    with pytest.raises(FileNotFoundError):
        GGUF(tmp_path / "missing")
