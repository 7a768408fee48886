"""Small files of every format with a name planted in every field that can hold one; written here, byte by byte."""

from __future__ import annotations

import base64
import io
import json
import math
import struct
import wave
import zlib

from PIL import Image, ImageCms, PngImagePlugin

NAME = "Zyxwolf"
PLANTED = NAME.encode()


def picture(colour: tuple[int, ...] = (10, 200, 30), size: tuple[int, int] = (24, 12)) -> Image.Image:
    made = Image.new("RGBA" if len(colour) == 4 else "RGB", size, colour)
    made.putpixel((0, 0), (255, 0, 0, *colour[3:]))
    return made


def png() -> bytes:
    info = PngImagePlugin.PngInfo()
    for key in ("Author", "Software", "Comment", "parameters"):
        info.add_text(key, f"{NAME} {key}")
    info.add_itxt("XML:com.adobe.xmp", f"<x:xmpmeta><dc:creator>{NAME}</dc:creator></x:xmpmeta>")
    exif = Image.Exif()
    exif[0x013B], exif[0x0131], exif[0x8298], exif[0x9286] = NAME, NAME, NAME, NAME
    out = io.BytesIO()
    picture().save(out, "PNG", pnginfo=info, exif=exif, icc_profile=_profile())
    return out.getvalue() + PLANTED  # after the end


def _profile() -> bytes:
    data = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    return data + PLANTED


def jpeg() -> bytes:
    exif = Image.Exif()
    exif[0x013B], exif[0x0131], exif[0x010F] = NAME, NAME, NAME
    exif[0x0112] = 6  # turned
    out = io.BytesIO()
    xmp = f"<x:xmpmeta>{NAME}</x:xmpmeta>".encode()
    picture().save(out, "JPEG", exif=exif, comment=PLANTED, xmp=xmp, icc_profile=_profile(), quality=90)
    return out.getvalue() + PLANTED


def gif() -> bytes:
    frames = [picture((i * 60, 0, 90)) for i in range(3)]
    out = io.BytesIO()
    frames[0].save(
        out, "GIF", save_all=True, append_images=frames[1:], duration=[50, 150, 250], loop=0, comment=PLANTED
    )
    return out.getvalue() + PLANTED


def webp() -> bytes:
    exif = Image.Exif()
    exif[0x013B] = NAME
    out = io.BytesIO()
    picture((1, 2, 3, 128)).save(out, "WEBP", lossless=True, exif=exif, xmp=PLANTED, icc_profile=_profile())
    return out.getvalue()


def svg() -> bytes:
    inside = base64.b64encode(png()).decode()
    return f"""<?xml version="1.0"?>
<!-- {NAME} --><?editor {NAME}?>
<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "http://example.org/{NAME}.dtd">
<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" xmlns:e="http://example.org/{NAME}"
 e:version="{NAME}" id="{NAME}" viewBox="0 0 40 40" width="40" height="40" onload="{NAME}()" data-by="{NAME}"
 aria-label="{NAME}" xml:lang="{NAME}" xml:base="http://{NAME}.example.org/">
<title>{NAME}</title><desc>{NAME}</desc><metadata><e:by>{NAME}</e:by></metadata>
<e:view layer="{NAME}"/><script>{NAME}</script>
<style>/* {NAME} */ .{NAME} {{ fill: url(#{NAME}-fill) }} #{NAME}-rect {{ stroke: red }}</style>
<defs><linearGradient id="{NAME}-fill"><stop offset="0" stop-color="red"/></linearGradient></defs>
<foreignObject><p>{NAME}</p></foreignObject>
<a href="https://{NAME}.example.org"><rect id="{NAME}-rect" class="{NAME}" width="9" height="9" onclick="{NAME}"/></a>
<use xlink:href="#{NAME}-rect" x="10"/><use href="https://{NAME}.example.org/x.svg#a"/>
<image href="data:image/png;base64,{inside}" width="5" height="5"/>
<image href="https://{NAME}.example.org/x.png" width="5" height="5"/>
<filter id="{NAME}-blur"><feGaussianBlur stdDeviation="1" result="{NAME}"/><feOffset in="{NAME}"/></filter>
<rect width="3" height="3" style="fill: red; /* {NAME} */ background: url(https://{NAME}.example.org/a)"/>
<animate id="{NAME}-a" attributeName="href" to="https://{NAME}.example.org" begin="{NAME}-a.end"/>
<text x="1" y="30">Seen &amp; kept</text>
</svg>""".encode()


def html() -> bytes:
    inside = base64.b64encode(jpeg()).decode()
    return f"""<!doctype html>
<!-- {NAME} -->
<html><head><title>{NAME} game</title>
<meta charset="utf-8"><meta name="generator" content="{NAME}"><meta name="author" content='{NAME}'>
<meta property="og:title" content="{NAME}"><meta name="viewport" content="width=device-width">
<meta http-equiv="refresh" content="0; url=https://{NAME}.example.org">
<base href="https://{NAME}.example.org/"><link rel="author" href="https://{NAME}.example.org">
<style>/* {NAME} */ p {{ color: red; }}</style></head>
<body><p>1 &lt; 2 &amp; seen</p><svg><title>{NAME}</title><metadata>{NAME}</metadata><circle r="3"/></svg>
<img alt="" src="data:image/jpeg;base64,{inside}"><noscript>{NAME}</noscript>
<script>
// {NAME}
/* {NAME}
   again */
const address = "https://example.org/a", pattern = /["'`]\\/\\*/g, half = 4 / 2 / 1; // {NAME}
const shown = `// kept ${{ /* {NAME} */ "}}" }} /* kept */`;
</script><!-- {NAME} --></body></html>
<!-- {NAME} -->""".encode()


def voxel() -> bytes:
    return json.dumps(
        {
            "author": NAME,
            "palette": ["#FF0000", "#00ff0080"],
            "names": [NAME],
            "blocks": [[5, 5, 5, 0], [6, 5, 5, 1]],
            "boxes": [[5, 6, 5, 7, 8, 9, 0]],
        }
    ).encode()


def glb() -> bytes:
    """Two triangles with a texture, in a buffer with a name in every gap."""
    points = [(0, 0, 0), (1, 0, 0), (0, 1, 0)]
    woven = b"".join(struct.pack("<fff", *point) + PLANTED.ljust(8) for point in points)  # a name after every point
    indices = struct.pack("<HHH", 0, 1, 2)
    texture = png()
    parts = [PLANTED, woven, indices, texture, PLANTED]
    body, views = b"", []
    for part in parts:
        body += b"\0" * (-len(body) % 4)
        views.append({"buffer": 0, "byteOffset": len(body), "byteLength": len(part), "name": NAME})
        body += part
    views[1]["byteStride"] = 20
    said = {"name": NAME, "extras": {"by": NAME}, "extensions": {f"{NAME}_made": {"by": NAME}}}
    model = {
        "asset": {"version": "2.0", "generator": NAME, "copyright": NAME, "extras": {"by": NAME}},
        "extensionsUsed": [f"{NAME}_made", "KHR_materials_unlit"],
        "extras": {"by": NAME},
        "scene": 0,
        "scenes": [{"nodes": [0], **said}],
        "nodes": [{"mesh": 0, "translation": [0, 1, 0], "camera": 0, **said}],
        "cameras": [{"type": "perspective", "perspective": {"yfov": 1, "znear": 0.1}, **said}],
        "meshes": [
            {"primitives": [{"attributes": {"POSITION": 0, f"_{NAME}": 0}, "indices": 1, "material": 0}], **said}
        ],
        "materials": [
            {
                "pbrMetallicRoughness": {"baseColorFactor": [1, 0, 0, 1], "baseColorTexture": {"index": 0, **said}},
                **said,
                "extensions": {"KHR_materials_unlit": {"by": NAME}},
            }
        ],
        "textures": [{"source": 0, "sampler": 0, **said}],
        "samplers": [{"wrapS": 10497, **said}],
        "images": [{"bufferView": 3, "mimeType": "image/png", **said}],
        "accessors": [
            {
                "bufferView": 1,
                "componentType": 5126,
                "count": 3,
                "type": "VEC3",
                "min": [0, 0, 0],
                "max": [1, 1, 0],
                **said,
            },
            {"bufferView": 2, "componentType": 5123, "count": 3, "type": "SCALAR", **said},
        ],
        "bufferViews": views,
        "buffers": [{"byteLength": len(body), **said}],
    }
    text = json.dumps(model).encode()
    text += b" " * (-len(text) % 4)
    body += b"\0" * (-len(body) % 4)
    chunks = struct.pack("<II", len(text), 0x4E4F534A) + text + struct.pack("<II", len(body), 0x004E4942) + body
    chunks += struct.pack("<II", 8, 0x58585858) + PLANTED.ljust(8)
    return struct.pack("<III", 0x46546C67, 2, 12 + len(chunks)) + chunks


# --- Sound and film --------------------------------------------------------------------------------------------------


def _id3() -> bytes:
    frame = b"TPE1" + struct.pack(">I", len(PLANTED) + 1) + b"\0\0" + b"\0" + PLANTED
    return b"ID3\x03\0\0" + bytes([0, 0, len(frame) >> 7 & 0x7F, len(frame) & 0x7F]) + frame


def mp3() -> bytes:
    frame = b"\xff\xfb\x90\x00" + bytes(413)  # MPEG 1 layer III, 128 kbit/s, 44.1 kHz: 417 bytes
    first = bytearray(frame)
    first[36:40], first[156:165] = b"Info", b"LAME3.100"
    ape = b"APETAGEX" + bytes(24) + PLANTED
    id3v1 = b"TAG" + PLANTED.ljust(125, b"\0")
    return _id3() + bytes(first) + frame * 3 + PLANTED + frame + ape + id3v1


def wav() -> bytes:
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(b"".join(struct.pack("<h", int(9000 * math.sin(i / 5))) for i in range(801)))
    data = out.getvalue()
    said = b"INFO" + b"IART" + struct.pack("<I", 8) + PLANTED.ljust(8, b"\0")
    more = b"LIST" + struct.pack("<I", len(said)) + said + b"id3 " + struct.pack("<I", 8) + PLANTED.ljust(8, b"\0")
    return data[:12] + more + data[12:] + more


def flac() -> bytes:
    info = struct.pack(">HH", 4096, 4096) + bytes(6) + bytes.fromhex("0ac442f000000000") + bytes(16)
    comment = struct.pack("<I", len(PLANTED)) + PLANTED + struct.pack("<I", 1)
    comment += struct.pack("<I", len(PLANTED) + 7) + b"ARTIST=" + PLANTED
    blocks = [(0, info), (4, comment), (2, PLANTED.ljust(8)), (6, PLANTED), (1, PLANTED)]
    packed = b"".join(
        bytes([kind | (0x80 if place == len(blocks) - 1 else 0)]) + len(block).to_bytes(3, "big") + block
        for place, (kind, block) in enumerate(blocks)
    )
    return _id3() + b"fLaC" + packed + b"\xff\xf8" + bytes(64) + b"TAG" + PLANTED.ljust(125, b"\0")


def _ogg_page(packets: list[bytes], number: int, flags: int) -> bytes:
    segments = b"".join(b"\xff" * (len(packet) // 255) + bytes([len(packet) % 255]) for packet in packets)
    head = b"OggS\0" + bytes([flags]) + struct.pack("<qIII", 960 * number, 77, number, 0) + bytes([len(segments)])
    page = bytearray(head + segments + b"".join(packets))
    crc = 0
    for byte in page:
        crc ^= byte << 24
        for _ in range(8):
            crc = (crc << 1 ^ 0x04C11DB7) & 0xFFFFFFFF if crc & 0x80000000 else crc << 1
    page[22:26] = struct.pack("<I", crc)
    return bytes(page)


def ogg() -> bytes:
    head = b"OpusHead\x01\x01" + struct.pack("<HIHB", 312, 48_000, 0, 0)
    tags = b"OpusTags" + struct.pack("<I", len(PLANTED)) + PLANTED + struct.pack("<I", 1)
    tags += struct.pack("<I", len(PLANTED) + 7) + b"ARTIST=" + PLANTED + b"\x01" + PLANTED
    sound = [b"\xfc\xff\xfe"] * 3
    return _ogg_page([head], 0, 2) + _ogg_page([tags], 1, 0) + _ogg_page(sound, 2, 4)


def box(name: bytes, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return struct.pack(">I4s", len(body) + 8, name) + body


def mp4(handler: bytes = b"vide") -> bytes:
    said = box(b"udta", box(b"meta", bytes(4), box(b"ilst", box(b"\xa9too", box(b"data", bytes(8), PLANTED)))))
    times = struct.pack(">IIII", 0, 3_900_000_000, 3_900_000_001, 1000)
    named = bytes(4) + bytes(4) + handler + bytes(12) + PLANTED + b"\0"
    entry = bytes(6) + b"\0\1" + bytes(16) + struct.pack(">HH", 16, 16) + bytes(14)
    picture_entry = box(b"avc1", entry + bytes([7]) + PLANTED.ljust(31, b"\0") + b"\0\x18\xff\xff")
    described = box(b"stsd", bytes(4), struct.pack(">I", 1), picture_entry)
    table = box(b"stbl", described, box(b"stts", bytes(8)), box(b"stsz", bytes(12)), box(b"stco", bytes(8)))
    media = box(b"mdia", box(b"mdhd", times, bytes(4), b"\x15\xc7\0\0"), box(b"hdlr", named), box(b"minf", table))
    track = box(b"trak", box(b"tkhd", times, bytes(68)), media, said, box(b"meta", PLANTED))
    x264 = bytes.fromhex("dc45e9bde6d948b7962cd820d923eeef") + PLANTED + b" - core 164"
    return b"".join(
        [
            box(b"ftyp", b"isom\0\0\2\0isom"),
            box(b"free", PLANTED),
            box(b"uuid", bytes(16), PLANTED),
            box(b"moov", box(b"mvhd", times, bytes(84)), track, said),
            box(b"mdat", b"\0\1\2" + x264 + b"\0\1" + PLANTED.ljust(60, b".") + b"\2"),
        ]
    )


def element(name: int, *parts: bytes) -> bytes:
    body = b"".join(parts)
    head = name.to_bytes((name.bit_length() + 7) // 8, "big")
    return head + (0x0100000000000000 | len(body)).to_bytes(8, "big") + body


def webm() -> bytes:
    head = element(0x1A45DFA3, element(0x4282, b"webm"))
    apps = element(0x4D80, PLANTED) + element(0x5741, PLANTED) + element(0x7BA9, PLANTED) + element(0x4461, bytes(8))
    info = element(0x1549A966, element(0x2AD7B1, b"\x0f\x42\x40"), apps, element(0x7384, PLANTED))
    track = element(
        0xAE, element(0xD7, b"\1"), element(0x83, b"\1"), element(0x536E, PLANTED), element(0x258688, PLANTED)
    )
    tag = element(0x7373, element(0x67C8, element(0x45A3, b"ARTIST"), element(0x4487, PLANTED)))
    block = element(0xA3, b"\x81\0\0\x80" + b"\0\1\2" + PLANTED.ljust(50, b"."))
    cluster = element(0x1F43B675, element(0xE7, b"\0"), block)
    attached = element(0x1941A469, element(0x61A7, element(0x466E, PLANTED)))
    chapters = element(0x1043A770, element(0x45B9, element(0xB6, element(0x80, element(0x85, PLANTED)))))
    tracks = element(0x1654AE6B, track)
    return head + element(
        0x18538067, info, tracks, element(0x1254C367, tag), attached, chapters, element(0xEC, PLANTED), cluster
    )


def bomb() -> bytes:
    """A PNG of a few bytes that claims to be 60,000 × 60,000 pixels."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    )


FILES = {
    ("image", "png"): png,
    ("image", "jpeg"): jpeg,
    ("image", "gif"): gif,
    ("image", "webp"): webp,
    ("svg", "svg"): svg,
    ("html", "html"): html,
    ("voxel", "json"): voxel,
    ("model3d", "glb"): glb,
    ("audio", "mp3"): mp3,
    ("audio", "wav"): wav,
    ("audio", "flac"): flac,
    ("audio", "ogg"): ogg,
    ("audio", "m4a"): lambda: mp4(b"soun"),
    ("video", "mp4"): mp4,
    ("video", "webm"): webm,
}
