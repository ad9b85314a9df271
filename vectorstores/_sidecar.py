"""What is derived from the vectors and metadata of a large namespace, in a small file beside its mapped vectors.

It holds the codes and the columns of the declared keys. It belongs to one generation of the vectors' file, and is
removed whenever something is deleted or replaced, since it holds what was derived from that too.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from vectorstores import _codes
from vectorstores._columns import Column
from vectorstores._folder import sync_folder
from vectorstores._mapped import Moment, layout_of

if TYPE_CHECKING:
    from vectorstores._codes import Codes
    from vectorstores._mapped import Layout, Place

# Magic, store, namespace, generation of the vectors, newest change and its token, positions in the columns, size at
# which the codes were trained, lengths of the codes, of the distinct values and of the columns; then a CRC-32 of all.
_HEADER: Final = struct.Struct("<8s32s32s16sqqqqqqq")
_MAGIC: Final = b"JVSCOD04"


@dataclass(frozen=True, slots=True)
class Sidecar:
    """What a file holds, as of a change; without codes or columns if there were none."""

    moment: Moment
    codes: Codes | None
    columns: Mapping[str, Column]


def write(place: Place, layout: Layout, sidecar: Sidecar, current: Callable[[], bool]) -> bool:
    """Write a file in place of the old one, unless it is no longer ``current()``; return whether it was written."""
    codes = b"" if sidecar.codes is None else sidecar.codes.to_bytes()
    packed = {key: column.packed(layout.count) for key, column in sidecar.columns.items()}
    values = json.dumps({key: distinct for key, (distinct, _) in packed.items()}).encode()
    numbers = b"".join(each.astype("<i4").tobytes() for _, each in packed.values())
    trained = 0 if sidecar.codes is None else sidecar.codes.trained
    lengths = (len(codes), len(values), len(numbers))
    fields = (layout.generation, *sidecar.moment, layout.count, trained, *lengths)
    head = _HEADER.pack(_MAGIC, place.store.encode(), place.digest, *fields)
    draft = place.draft(place.codes)
    try:
        with draft.open("xb") as file:
            draft.chmod(0o600)
            for part in (head, codes, values, numbers):
                file.write(part)
            file.write(struct.pack("<I", _codes.checksum(head, codes, values, numbers)))
            file.flush()
            os.fsync(file.fileno())
        with place.hold(), place.vectors.open("rb") as vectors:
            found = layout_of(vectors, place)
            if found is None or found.generation != layout.generation or not current():
                return False
            draft.replace(place.codes)
        sync_folder(place.folder)
    finally:
        draft.unlink(missing_ok=True)
    return True


def read(place: Place, layout: Layout) -> Sidecar | None:
    """Return what goes with these vectors, or None if there is no file that can be relied on."""
    try:
        # Parts of it are looked at, not copied: of a million lessons that would take other threads' turn for 40 ms.
        data = memoryview(place.codes.read_bytes())
    except OSError:
        return None
    if len(data) < _HEADER.size + 4 or _codes.checksum(data[:-4]) != struct.unpack("<I", data[-4:])[0]:
        return None
    magic, store, digest, generation, seq, token, count, trained, *lengths = _HEADER.unpack_from(data)
    mine = (_MAGIC, place.store.encode(), place.digest, layout.generation, layout.count)
    if (magic, store, digest, generation, count) != mine or seq < layout.moment.seq:
        return None
    ends = np.cumsum([_HEADER.size, *lengths]).tolist()
    try:
        codes = _codes.restored(data[ends[0] : ends[1]], trained) if lengths[0] else None
    except RuntimeError:
        return None  # written by another version of FAISS
    values = json.loads(bytes(data[ends[1] : ends[2]]))
    numbers = np.frombuffer(data[ends[2] : ends[3]], dtype="<i4").reshape(len(values), count)
    columns = {
        key: Column.unpacked(distinct, each)
        for (key, distinct), each in zip(values.items(), numbers, strict=True)
    }
    return Sidecar(Moment(seq, token), codes, columns)
