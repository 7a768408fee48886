"""3D answers, written anew: builds of coloured blocks, and glTF models without anything that is not drawn."""

from __future__ import annotations

import re
import struct
from typing import Any

import msgspec

from tiltyard.arena.media.images import clean_texture
from tiltyard.errors import BankError

MOST_BLOCKS = 1_000_000
WIDEST = 1000
MOST_COLOURS = 4096
_COLOUR = re.compile(r"#(?:[0-9a-fA-F]{3}|[0-9a-fA-F]{6}|[0-9a-fA-F]{8})\Z")


class _Build(msgspec.Struct, frozen=True):
    palette: list[str]
    blocks: list[tuple[int, int, int, int]] = []
    boxes: list[tuple[int, int, int, int, int, int, int]] = []


def clean_voxel(data: bytes) -> bytes:
    """A build: its palette, its blocks and its boxes, moved to the origin; every other key is gone."""
    try:
        build = msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"), type=_Build)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        said = str(error).splitlines()[0]
        raise BankError(
            f'is not a voxel build ({said}). Write {{"palette": ["#rrggbb", …], "blocks": [[x, y, z, colour], …]}}.'
        ) from None
    if not 0 < len(build.palette) <= MOST_COLOURS or not all(map(_COLOUR.match, build.palette)):
        raise BankError(f"has no palette of 1 to {MOST_COLOURS:,} colours written #rrggbb. Correct it.")
    inside = sum(
        (abs(x2 - x1) + 1) * (abs(y2 - y1) + 1) * (abs(z2 - z1) + 1) for x1, y1, z1, x2, y2, z2, _ in build.boxes
    )
    if not 0 < len(build.blocks) + inside <= MOST_BLOCKS:
        raise BankError(
            f"has {len(build.blocks) + inside:,} blocks; a build has 1 to {MOST_BLOCKS:,}. Make it smaller."
        )
    colours = {row[-1] for row in (*build.blocks, *build.boxes)}
    if min(colours) < 0 or max(colours) >= len(build.palette):
        raise BankError(
            f"has a block of colour {max(colours)}, and its palette has {len(build.palette)}. Count from 0."
        )
    low, high = zip(*(_reach(build, axis) for axis in range(3)), strict=True)
    if any(top - bottom >= WIDEST for bottom, top in zip(low, high, strict=True)):
        raise BankError(f"is wider than {WIDEST:,} blocks. Make it smaller.")
    x, y, z = low
    made = {"palette": [colour.lower() for colour in build.palette]}
    moved: dict[str, Any] = {
        "blocks": [(a - x, b - y, c - z, colour) for a, b, c, colour in build.blocks],
        "boxes": [(a - x, b - y, c - z, d - x, e - y, f - z, colour) for a, b, c, d, e, f, colour in build.boxes],
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
SEMANTICS = re.compile(r"(POSITION|NORMAL|TANGENT|(TEXCOORD|COLOR|JOINTS|WEIGHTS)_[0-3])\Z")
EXTENSIONS = frozenset({"KHR_materials_unlit", "KHR_mesh_quantization"})
"""Extensions that say something without parameters, and so survive."""
DEEPEST = 64
MOST_PARTS = 100_000

Object = dict[str, Any]


def clean_glb(data: bytes) -> bytes:
    """A binary glTF model with what is drawn: scenes, meshes, materials, textures, movements.

    Names, `asset.generator`, `copyright`, `extras` and extensions are gone, and so is every byte of its buffer that no
    part of the model uses.
    """
    model, body = _chunks(data)
    try:
        return _Model(model, body).written()
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, struct.error) as error:
        said = " ".join(str(error).split())[:60]
        raise BankError(f"is not a whole glTF model ({type(error).__name__}: {said}). Export it again.") from None


def _chunks(data: bytes) -> tuple[Object, bytes]:
    if len(data) < 20:
        raise BankError("is cut off. Export the model again as binary glTF (.glb).")
    magic, version, length = struct.unpack_from("<III", data)
    if magic != GLTF or version != 2 or length > len(data):
        raise BankError("is not binary glTF 2 (.glb), or cut off. Export the model again.")
    at = 12
    found: dict[int, bytes] = {}
    while at + 8 <= length:
        size, kind = struct.unpack_from("<II", data, at)
        found.setdefault(kind, data[at + 8 : at + 8 + size])
        at += 8 + size
    try:
        model = msgspec.json.decode(found.get(JSON, b""))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise BankError("has no readable description inside. Export the model again.") from None
    if not isinstance(model, dict):
        raise BankError("has no readable description inside. Export the model again.")
    return model, found.get(BIN, b"")


class _Model:
    """A model that is written anew, with numbers of its own for everything that is used."""

    def __init__(self, model: Object, body: bytes) -> None:
        self._model = model
        self._given = body
        self._body = bytearray()
        self._made: dict[str, list[Object]] = {}
        self._numbers: dict[tuple[str, int], int] = {}
        self._used: set[str] = set()
        self._children: set[int] = set()
        needed = set(model.get("extensionsRequired", ())) - EXTENSIONS
        if needed:
            raise BankError(
                f"needs {', '.join(sorted(map(str, needed)))[:100]}, which is not shown. Export without it."
            )
        if any("uri" in buffer for buffer in model.get("buffers", ())) or len(model.get("buffers", ())) > 1:
            raise BankError("keeps its data in other files. Export the model as one .glb file.")

    def written(self) -> bytes:
        model = self._model
        scenes = model.get("scenes", [])
        roots = scenes[model.get("scene", 0)].get("nodes", []) if scenes else range(len(model.get("nodes", [])))
        nodes = [self._node(int(number), 0) for number in roots]
        if not nodes:
            raise BankError("has an empty scene. Export the model again.")
        moving = [made for given in model.get("animations", ()) if (made := self._animation(given))]
        out: Object = {"asset": {"version": "2.0"}, "scene": 0, "scenes": [{"nodes": nodes}], **self._made}
        if moving:
            out["animations"] = moving
        if self._used:
            out["extensionsUsed"] = sorted(self._used)
            required = [name for name in sorted(self._used) if name in model.get("extensionsRequired", ())]
            out |= {"extensionsRequired": required} if required else {}
        if self._body:
            out["buffers"] = [{"byteLength": len(self._body)}]
        return _glb(msgspec.json.encode(out), bytes(self._body))

    def _number(self, what: str, given: int, make: Any) -> int:
        """The new number of a part, which is written when it is first used."""
        key = (what, given)
        if key not in self._numbers:
            if given < 0 or len(self._numbers) > MOST_PARTS:
                raise ValueError(f"{what} {given}")
            self._numbers[key] = len(self._made.setdefault(what, []))
            self._made[what].append({})
            self._made[what][self._numbers[key]] = make(self._model[what][given])
        return self._numbers[key]

    def _node(self, number: int, depth: int) -> int:
        if depth > DEEPEST:
            raise BankError(f"has more than {DEEPEST} parts inside each other. Simplify it.")

        def make(given: Object) -> Object:
            made = _numbers_of(given, matrix=16, translation=3, rotation=4, scale=3)
            if "mesh" in given:
                made["mesh"] = self._number("meshes", given["mesh"], self._mesh)
            if "skin" in given:
                made["skin"] = self._number("skins", given["skin"], lambda skin: self._skin(skin, depth))
            if given.get("children"):
                made["children"] = [self._child(int(child), depth + 1) for child in given["children"]]
            return made

        return self._number("nodes", number, make)

    def _child(self, number: int, depth: int) -> int:
        """A node inside another. One that is inside two would be drawn twice, and so all in it, without an end."""
        if number in self._children:
            raise ValueError(f"node {number} is inside several others")
        self._children.add(number)
        return self._node(number, depth)

    def _mesh(self, given: Object) -> Object:
        return {"primitives": [self._primitive(part) for part in given["primitives"]], **_weights(given)}

    def _primitive(self, given: Object) -> Object:
        made: Object = {"attributes": self._attributes(given["attributes"]), "mode": int(given.get("mode", 4))}
        if "indices" in given:
            made["indices"] = self._accessor(given["indices"], of_vertices=False)
        if "material" in given:
            made["material"] = self._number("materials", given["material"], self._material)
        if given.get("targets"):
            made["targets"] = [self._attributes(target) for target in given["targets"]]
        return made

    def _attributes(self, given: Object) -> Object:
        return {name: self._accessor(number) for name, number in given.items() if SEMANTICS.match(name)}

    def _skin(self, given: Object, depth: int) -> Object:
        made: Object = {"joints": [self._node(int(joint), depth + 1) for joint in given["joints"]]}
        if "inverseBindMatrices" in given:
            made["inverseBindMatrices"] = self._accessor(given["inverseBindMatrices"], of_vertices=False)
        return made

    def _animation(self, given: Object) -> Object | None:
        samplers: list[Object] = []
        channels = []
        for channel in given.get("channels", ()):
            target, sampler = channel["target"], given["samplers"][channel["sampler"]]
            node = self._numbers.get(("nodes", target.get("node", -1)))
            if node is None or target["path"] not in ("translation", "rotation", "scale", "weights"):
                continue
            channels.append({"sampler": len(samplers), "target": {"node": node, "path": target["path"]}})
            ends = {name: self._accessor(sampler[name], of_vertices=False) for name in ("input", "output")}
            way = sampler.get("interpolation", "LINEAR")
            samplers.append({**ends, "interpolation": way if way in ("STEP", "CUBICSPLINE") else "LINEAR"})
        return {"channels": channels, "samplers": samplers} if channels else None

    def _material(self, given: Object) -> Object:
        made = _numbers_of(given, emissiveFactor=3)
        surface = given.get("pbrMetallicRoughness", {})
        made["pbrMetallicRoughness"] = {
            **_numbers_of(surface, baseColorFactor=4, metallicFactor=1, roughnessFactor=1),
            **self._textures(surface, "baseColorTexture", "metallicRoughnessTexture"),
        }
        made |= self._textures(given, "normalTexture", "occlusionTexture", "emissiveTexture")
        if given.get("alphaMode") in ("MASK", "BLEND"):
            made["alphaMode"] = given["alphaMode"]
        made |= _numbers_of(given, alphaCutoff=1)
        if given.get("doubleSided") is True:
            made["doubleSided"] = True
        if "KHR_materials_unlit" in given.get("extensions", {}):
            self._used.add("KHR_materials_unlit")
            made["extensions"] = {"KHR_materials_unlit": {}}
        return made

    def _textures(self, given: Object, *names: str) -> Object:
        return {
            name: {
                "index": self._number("textures", given[name]["index"], self._texture),
                "texCoord": int(given[name].get("texCoord", 0)),
                **_numbers_of(given[name], scale=1, strength=1),
            }
            for name in names
            if name in given
        }

    def _texture(self, given: Object) -> Object:
        made: Object = {"source": self._number("images", given["source"], self._image)}
        if "sampler" in given:
            made["sampler"] = self._number("samplers", given["sampler"], _sampler)
        return made

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
        if given.get("normalized") is True:
            made["normalized"] = True
        if kind != 5126 and of_vertices and "KHR_mesh_quantization" in self._model.get("extensionsRequired", ()):
            self._used.add("KHR_mesh_quantization")
        return made | _numbers_of(given, max=WIDTHS[shape], min=WIDTHS[shape])

    def _cut(self, start: int, length: int) -> bytes:
        if start < 0 or length < 0 or start + length > len(self._given):
            raise ValueError("data outside the buffer")
        return self._given[start : start + length]

    def _view(self, data: bytes, stride: int = 0) -> int:
        self._body += b"\0" * (-len(self._body) % 4)
        view: Object = {"buffer": 0, "byteOffset": len(self._body), "byteLength": len(data)}
        self._body += data
        views = self._made.setdefault("bufferViews", [])
        views.append(view | ({"byteStride": stride} if stride else {}))
        return len(views) - 1


def _sampler(given: Object) -> Object:
    return {name: int(given[name]) for name in ("magFilter", "minFilter", "wrapS", "wrapT") if name in given}


def _weights(given: Object) -> Object:
    return {"weights": [float(weight) for weight in given["weights"]]} if given.get("weights") else {}


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


def _glb(text: bytes, body: bytes) -> bytes:
    chunks = [(JSON, text + b" " * (-len(text) % 4))] + ([(BIN, body + b"\0" * (-len(body) % 4))] if body else [])
    packed = b"".join(struct.pack("<II", len(data), kind) + data for kind, data in chunks)
    return struct.pack("<III", GLTF, 2, 12 + len(packed)) + packed
