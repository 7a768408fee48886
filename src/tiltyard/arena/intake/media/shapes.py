"""3D answers, written anew: builds of coloured blocks, and glTF models without anything that is not drawn."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from itertools import chain
from typing import Any

import msgspec

from tiltyard.arena.intake.media.block_colours import block_colour
from tiltyard.arena.intake.media.images import clean_texture
from tiltyard.errors import BankError

MOST_BLOCKS = 1_000_000
WIDEST = 1000
MOST_COLOURS = 4096
_COLOUR = re.compile(r"#(?:[0-9a-fA-F]{3}|[0-9a-fA-F]{6}|[0-9a-fA-F]{8})\Z")


class _Build(msgspec.Struct, frozen=True):
    palette: list[str]
    blocks: list[tuple[int, int, int, int]] = []
    boxes: list[tuple[int, int, int, int, int, int, int]] = []


class _Place(msgspec.Struct, frozen=True):
    x: int
    y: int
    z: int


class _TypedBlock(_Place, frozen=True):
    type: str


class _TypedBox(msgspec.Struct, frozen=True):
    x1: int
    y1: int
    z1: int
    x2: int
    y2: int
    z2: int
    type: str


class _TypedLine(msgspec.Struct, frozen=True, rename={"start": "from", "end": "to"}):
    start: _Place
    end: _Place
    type: str

    @property
    def steps(self) -> int:
        one, other = self.start, self.end
        return max(abs(other.x - one.x), abs(other.y - one.y), abs(other.z - one.z))

    def places(self) -> Iterator[tuple[int, int, int]]:
        """The blocks of the line, one for each step along its longest axis."""
        one, other, steps = self.start, self.end, max(self.steps, 1)
        for step in range(self.steps + 1):
            yield (
                one.x + _rounded(step * (other.x - one.x), steps),
                one.y + _rounded(step * (other.y - one.y), steps),
                one.z + _rounded(step * (other.z - one.z), steps),
            )


class _TypedBuild(msgspec.Struct, frozen=True):
    """A build as MineBench writes it: blocks, boxes and lines of named kinds of blocks."""

    blocks: list[_TypedBlock] = []
    boxes: list[_TypedBox] = []
    lines: list[_TypedLine] = []


def _rounded(number: int, by: int) -> int:
    return (2 * number + by) // (2 * by)


def _read_build(data: bytes) -> _Build:
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        keys = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
        if "palette" in keys:
            return msgspec.json.decode(data, type=_Build)
        if not keys.keys() & {"blocks", "boxes", "lines"}:
            raise msgspec.ValidationError("it has no `blocks`, `boxes` or `lines`")
        return _coloured(msgspec.json.decode(data, type=_TypedBuild))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        why = str(error).splitlines()[0]
        raise BankError(
            f'is not a voxel build ({why}). Write {{"palette": ["#rrggbb", …], "blocks": [[x, y, z, colour], …]}}, or '
            '{"blocks": [{"x": 0, "y": 0, "z": 0, "type": "stone"}, …]} as MineBench does.'
        ) from None


def _coloured(build: _TypedBuild) -> _Build:
    """The same build with colours; lines become blocks, which are placed after boxes and before the blocks."""
    _check_size(len(build.blocks) + sum(line.steps + 1 for line in build.lines))
    palette: dict[str, int] = {}
    kinds = [[one.type for one in build.boxes], [one.type for one in build.lines], [one.type for one in build.blocks]]
    colours = {
        kind: palette.setdefault(colour, len(palette))
        for kind in dict.fromkeys(chain.from_iterable(kinds))
        if (colour := block_colour(kind))
    }
    of_lines = [(*at, colours[line.type]) for line in build.lines if line.type in colours for at in line.places()]
    return _Build(
        list(palette),
        of_lines + [(one.x, one.y, one.z, colours[one.type]) for one in build.blocks if one.type in colours],
        [
            (one.x1, one.y1, one.z1, one.x2, one.y2, one.z2, colours[one.type])
            for one in build.boxes
            if one.type in colours
        ],
    )


def _check_size(blocks: int) -> None:
    if blocks > MOST_BLOCKS:
        raise BankError(f"has {blocks:,} blocks; a build has 1 to {MOST_BLOCKS:,}. Make it smaller.")


def clean_voxel(data: bytes) -> bytes:
    """A build: its blocks, its boxes and the colours they have, moved to the origin; every other key is gone."""
    build = _read_build(data)
    if not build.blocks and not build.boxes:
        raise BankError("has no blocks. Leave the answer out.")
    if not 0 < len(build.palette) <= MOST_COLOURS or not all(map(_COLOUR.match, build.palette)):
        raise BankError(f"has no palette of 1 to {MOST_COLOURS:,} colours written #rrggbb. Correct it.")
    inside = sum(
        (abs(x2 - x1) + 1) * (abs(y2 - y1) + 1) * (abs(z2 - z1) + 1) for x1, y1, z1, x2, y2, z2, _ in build.boxes
    )
    _check_size(len(build.blocks) + inside)
    colours = {row[-1] for row in (*build.blocks, *build.boxes)}
    if min(colours) < 0 or max(colours) >= len(build.palette):
        raise BankError(
            f"has a block of colour {max(colours)}, and its palette has {len(build.palette)}. Count from 0."
        )
    low, high = zip(*(_reach(build, axis) for axis in range(3)), strict=True)
    if any(top - bottom >= WIDEST for bottom, top in zip(low, high, strict=True)):
        raise BankError(f"is wider than {WIDEST:,} blocks. Make it smaller.")
    x, y, z = low
    kept = {colour: place for place, colour in enumerate(sorted(colours))}
    made = {"palette": [build.palette[colour].lower() for colour in kept]}
    moved: dict[str, Any] = {
        "blocks": [(a - x, b - y, c - z, kept[colour]) for a, b, c, colour in build.blocks],
        "boxes": [(a - x, b - y, c - z, d - x, e - y, f - z, kept[colour]) for a, b, c, d, e, f, colour in build.boxes],
    }
    return msgspec.json.encode({**made, **{name: rows for name, rows in moved.items() if rows}})


def _reach(build: _Build, axis: int) -> tuple[int, int]:
    places = [row[axis] for row in build.blocks]
    places += [row[axis + corner] for row in build.boxes for corner in (0, 3)]
    return min(places), max(places)


# --- glTF ------------------------------------------------------------------------------------------------------------

GLTF, JSON, BIN = 0x46546C67, 0x4E4F534A, 0x004E4942
SIZES = {5120: 1, 5121: 1, 5122: 2, 5123: 2, 5125: 4, 5126: 4}
WIDTHS = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4, "MAT4": 16}
QUANTIZED = "KHR_mesh_quantization"
EXTENSIONS = frozenset({"KHR_materials_unlit", QUANTIZED})
"""Extensions without parameters, which a model may need."""
TRIANGLES = 4
"""The first way of drawing that has surfaces; points and lines are not drawn."""
DEEPEST = 64
MOST_PARTS = 100_000
MOST_CORNERS = 20_000_000
"""Of all triangles, a mesh counted as often as it is drawn."""
LARGEST_GROWTH, ALWAYS_ALLOWED = 8, 16_000_000
"""How many times its own bytes a model's values may have, and how many bytes in any case: several may read the same."""

Object = dict[str, Any]


def clean_glb(data: bytes) -> bytes:
    """A binary glTF model with what is drawn: a scene of triangles with their colours and one texture each.

    Names, `asset.generator`, `copyright`, `extras` and extensions are gone, and so are skins, movements, further
    attributes and textures, and every byte of its buffer that nothing drawn uses.
    """
    model, body = _chunks(data)
    try:
        return _Model(model, body).written()
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, struct.error) as error:
        message = " ".join(str(error).split())[:60]
        raise BankError(f"is not a whole glTF model ({type(error).__name__}: {message}). Export it again.") from None


def _chunks(data: bytes) -> tuple[Object, bytes]:
    if len(data) < 20:
        raise BankError("is cut off. Export the model again as binary glTF (.glb).")
    magic, version, length = struct.unpack_from("<III", data)
    if magic != GLTF or version != 2 or length > len(data):
        raise BankError("is not binary glTF 2 (.glb), or cut off. Export the model again.")
    at = 12
    result: dict[int, bytes] = {}
    while at + 8 <= length:
        size, kind = struct.unpack_from("<II", data, at)
        result.setdefault(kind, data[at + 8 : at + 8 + size])
        at += 8 + size
    try:
        model = msgspec.json.decode(result.get(JSON, b""))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise BankError("has no readable description inside. Export the model again.") from None
    if not isinstance(model, dict):
        raise BankError("has no readable description inside. Export the model again.")
    return model, result.get(BIN, b"")


class _Model:
    """A model that is written anew, with numbers of its own for everything that is used."""

    def __init__(self, model: Object, body: bytes) -> None:
        self._model = model
        self._given = body
        self._body = bytearray()
        self._made: dict[str, list[Object]] = {}
        self._numbers: dict[tuple[str, int], int] = {}
        self._children: set[int] = set()
        self._corners: dict[int, int] = {}
        self._drawn = self._copied = 0
        needed = set(model.get("extensionsRequired", ())) - EXTENSIONS
        if needed:
            raise BankError(
                f"needs {', '.join(sorted(map(str, needed)))[:100]}, which is not shown. Export without it."
            )
        if any("uri" in buffer for buffer in model.get("buffers", ())) or len(model.get("buffers", ())) > 1:
            raise BankError("keeps its data in other files. Export the model as one .glb file.")

    def written(self) -> bytes:
        model = self._model
        nodes = [node for number in self._roots() if (node := self._child(number, 0)) is not None]
        if not nodes:
            raise BankError("has no triangles in its scene. Export the model again.")
        out: Object = {"asset": {"version": "2.0"}, "scene": 0, "scenes": [{"nodes": nodes}], **self._made}
        if QUANTIZED in model.get("extensionsRequired", ()):
            out |= {"extensionsUsed": [QUANTIZED], "extensionsRequired": [QUANTIZED]}
        out["buffers"] = [{"byteLength": len(self._body)}]
        text, body = msgspec.json.encode(out), bytes(self._body)
        chunks = [(JSON, text + b" " * (-len(text) % 4))] + ([(BIN, body + b"\0" * (-len(body) % 4))] if body else [])
        packed = b"".join(struct.pack("<II", len(data), kind) + data for kind, data in chunks)
        return struct.pack("<III", GLTF, 2, 12 + len(packed)) + packed

    def _roots(self) -> list[int]:
        if scenes := self._model.get("scenes", []):
            return [int(number) for number in scenes[self._model.get("scene", 0)].get("nodes", ())]
        nodes = self._model.get("nodes", [])
        inside = {int(child) for node in nodes for child in node.get("children", ())}
        return [number for number in range(len(nodes)) if number not in inside]

    def _number(self, what: str, given: int, make: Any) -> int:
        """The new number of a part, which is written when it is first used."""
        key = (what, given)
        if key not in self._numbers:
            if len(self._numbers) > MOST_PARTS:
                raise ValueError(f"more than {MOST_PARTS:,} parts")
            self._numbers[key] = self._add(what, make(self._model[what][_place(given)]))
        return self._numbers[key]

    def _add(self, what: str, made: Object) -> int:
        rows = self._made.setdefault(what, [])
        rows.append(made)
        return len(rows) - 1

    def _node(self, number: int, depth: int) -> int | None:
        """The new number of a node; None if nothing in it is drawn."""
        if depth > DEEPEST:
            raise BankError(f"has more than {DEEPEST} parts inside each other. Simplify it.")
        given = self._model["nodes"][_place(number)]
        made = _numbers_of(given, matrix=16, translation=3, rotation=4, scale=3)
        if "mesh" in given and (mesh := self._mesh(int(given["mesh"]))) is not None:
            made["mesh"] = mesh
        inside = [self._child(int(child), depth + 1) for child in given.get("children", ())]
        if children := [child for child in inside if child is not None]:
            made["children"] = children
        return self._add("nodes", made) if made.keys() & {"mesh", "children"} else None

    def _child(self, number: int, depth: int) -> int | None:
        """A node inside another. One that is inside two would be drawn twice, and so all in it, without an end."""
        if number in self._children:
            raise ValueError(f"node {number} is inside several others")
        self._children.add(number)
        return self._node(number, depth)

    def _mesh(self, number: int) -> int | None:
        mesh = self._number("meshes", number, self._primitives)
        self._drawn += self._corners[mesh]
        if self._drawn > MOST_CORNERS:
            raise BankError(f"draws more than {MOST_CORNERS // 3:,} triangles. Simplify it.")
        return mesh if self._corners[mesh] else None

    def _primitives(self, given: Object) -> Object:
        drawn = [part for part in given["primitives"] if int(part.get("mode", TRIANGLES)) >= TRIANGLES]
        made = [self._primitive(part) for part in drawn if "POSITION" in part["attributes"]]
        place = len(self._corners)
        accessors = self._made.get("accessors", [])
        self._corners[place] = sum(
            accessors[part.get("indices", part["attributes"]["POSITION"])]["count"] for part in made
        )
        return {"primitives": made}

    def _primitive(self, given: Object) -> Object:
        """Places, directions and colours of its corners, and where they are in the texture."""
        names = ["POSITION", "NORMAL", "COLOR_0"]
        made: Object = {"mode": int(given.get("mode", TRIANGLES))}
        if "material" in given:
            made["material"] = self._number("materials", given["material"], self._material)
            texture = self._made["materials"][made["material"]]["pbrMetallicRoughness"].get("baseColorTexture")
            names += [] if texture is None else [f"TEXCOORD_{texture['texCoord']}"]
        attributes = given["attributes"]
        made["attributes"] = {name: self._accessor(attributes[name]) for name in names if name in attributes}
        if "indices" in given:
            made["indices"] = self._accessor(given["indices"], of_vertices=False)
        return made

    def _material(self, given: Object) -> Object:
        surface = given.get("pbrMetallicRoughness", {})
        made = _numbers_of(given, emissiveFactor=3)
        made["pbrMetallicRoughness"] = _numbers_of(surface, baseColorFactor=4)
        if "baseColorTexture" in surface:
            made["pbrMetallicRoughness"]["baseColorTexture"] = {
                "index": self._number("textures", surface["baseColorTexture"]["index"], self._texture),
                "texCoord": int(surface["baseColorTexture"].get("texCoord", 0)),
            }
        if given.get("alphaMode") in ("MASK", "BLEND"):
            made["alphaMode"] = given["alphaMode"]
        return made | (_numbers_of(given, alphaCutoff=1) if given.get("alphaMode") == "MASK" else {})

    def _texture(self, given: Object) -> Object:
        return {"source": self._number("images", given["source"], self._image)}

    def _image(self, given: Object) -> Object:
        view = self._model["bufferViews"][given["bufferView"]]
        start, length = int(view.get("byteOffset", 0)), int(view["byteLength"])
        return {"mimeType": "image/png", "bufferView": self._view(clean_texture(self._cut(start, length)))}

    def _accessor(self, number: int, *, of_vertices: bool = True) -> int:
        return self._number("accessors", number, lambda given: self._values(given, of_vertices=of_vertices))

    def _values(self, given: Object, *, of_vertices: bool) -> Object:
        """The values of one accessor, one after the other, without what may lie between them."""
        if "sparse" in given or "bufferView" not in given:
            raise BankError("has sparse accessors, which are not shown. Export the model without them.")
        kind, count, shape = int(given["componentType"]), int(given["count"]), given["type"]
        size = SIZES[kind] * WIDTHS[shape]
        view = self._model["bufferViews"][given["bufferView"]]
        stride = int(view.get("byteStride", 0)) or size
        start = int(view.get("byteOffset", 0)) + int(given.get("byteOffset", 0))
        if (
            count < 1
            or stride < size
            or int(given.get("byteOffset", 0)) + stride * (count - 1) + size > int(view["byteLength"])
        ):
            raise ValueError("values outside their buffer view")
        data = self._cut(start, stride * (count - 1) + size)
        padded = -(-size // 4) * 4 if of_vertices else size
        if (stride, padded) != (size, size):
            data = b"".join(data[at : at + size].ljust(padded, b"\0") for at in range(0, stride * count, stride))
        made: Object = {"bufferView": self._view(data, padded if padded != size else 0)}
        made |= {"componentType": kind, "count": count, "type": shape}
        return made | ({"normalized": True} if given.get("normalized") is True else {})

    def _cut(self, start: int, length: int) -> bytes:
        if start < 0 or length < 0 or start + length > len(self._given):
            raise ValueError("data outside the buffer")
        self._copied += length
        if self._copied > max(LARGEST_GROWTH * len(self._given), ALWAYS_ALLOWED):
            raise BankError("reads the same bytes again and again. Export the model again.")
        return self._given[start : start + length]

    def _view(self, data: bytes, stride: int = 0) -> int:
        self._body += b"\0" * (-len(self._body) % 4)
        view: Object = {"buffer": 0, "byteOffset": len(self._body), "byteLength": len(data)}
        self._body += data
        return self._add("bufferViews", view | ({"byteStride": stride} if stride else {}))


def _place(number: int) -> int:
    if number < 0:
        raise ValueError(f"there is no part {number}")
    return number


def _numbers_of(given: Object, **lengths: int) -> Object:
    """The numbers of a part under these names: one, or a list of so many."""
    made: Object = {}
    for name, length in lengths.items():
        if name in given:
            value = given[name]
            rows = value if isinstance(value, list) else [value]
            if len(rows) != length or not all(type(number) in (int, float) for number in rows):
                raise ValueError(f"{name} is not {length} numbers")
            made[name] = rows if isinstance(value, list) else rows[0]
    return made
