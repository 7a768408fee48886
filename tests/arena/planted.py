"""Small files of every format with a name planted in every field that can hold one; written here, byte by byte."""

from __future__ import annotations

import base64
import io
import json
import struct
import zlib
from collections.abc import Callable
from functools import partial

from PIL import Image, ImageCms, PngImagePlugin

from tests.arena import planted_streams

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
<style>/* {NAME} */ p {{ color: red; }} a{{content:'/*'}} b{{}} c{{content:'*/'}}</style></head>
<body><p>1 &lt; 2 &amp; seen</p><svg><title>{NAME}</title><metadata>{NAME}</metadata><circle r="3"/></svg>
<img alt="" src="data:image/jpeg;base64,{inside}"><noscript>{NAME}</noscript>
<!--><p>between</p><!-- {NAME} --!><textarea><!-- seen --></textarea><!-- -- > {NAME} -->
<b style="color: red; /* {NAME} */" onclick="go() // {NAME}">b</b><noembed><!-- {NAME} --></noembed>
<svg><textarea><!-- {NAME} --></textarea></svg>
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
            "palette": ["#5a7978", "#FF0000", "#776f6c", "#00ff0080"],
            "names": [NAME],
            "blocks": [[5, 5, 5, 1], [6, 5, 5, 3]],
            "boxes": [[5, 6, 5, 7, 8, 9, 1]],
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
            {
                "primitives": [
                    {
                        "attributes": {"POSITION": 0, f"_{NAME}": 0, "WEIGHTS_3": 2, "TEXCOORD_3": 2},
                        "indices": 1,
                        "material": 0,
                    }
                ],
                **said,
            }
        ],
        "materials": [
            {
                "pbrMetallicRoughness": {"baseColorFactor": [1, 0, 0, 1], "baseColorTexture": {"index": 0, **said}},
                **said,
                "extensions": {"KHR_materials_unlit": {"by": NAME}},
            }
        ],
        "animations": [
            {
                "channels": [{"sampler": 0, "target": {"node": 0, "path": "scale"}}],
                "samplers": [{"input": 2, "output": 2}],
                **said,
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
            {"bufferView": 0, "componentType": 5121, "count": 7, "type": "SCALAR", **said},
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


def bomb() -> bytes:
    """A PNG of a few bytes that claims to be 60,000 × 60,000 pixels."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    )


FILES: dict[tuple[str, str], Callable[[], bytes]] = {
    ("image", "png"): png,
    ("image", "jpeg"): jpeg,
    ("image", "gif"): gif,
    ("image", "webp"): webp,
    ("svg", "svg"): svg,
    ("html", "html"): html,
    ("voxel", "json"): voxel,
    ("model3d", "glb"): glb,
    **{key: partial(planted_streams.everywhere, *key) for key in planted_streams.CODECS},
}
