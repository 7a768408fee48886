"""Builders for an arena of things to look at: small voxel builds, drawings and pages, the same bytes at every call.

Five builders of different skill answer the same prompts. A better one uses more materials, gets more parts right and
adds details; the weakest forgets blocks. Nothing here is a model's work: it is material to try an arena with.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

MadeKind = Literal["voxel", "svg", "html"]
"""The kinds of answers that builders make."""

PALETTE = {
    "stone": "#8d8a84",
    "dark stone": "#6a6761",
    "grass": "#6f9e4c",
    "leaf": "#47803a",
    "blossom": "#e9a6b8",
    "earth": "#7c5b3c",
    "sand": "#e0cd9a",
    "water": "#4f93c8b8",
    "wood": "#9a6b3f",
    "dark wood": "#5f4128",
    "plaster": "#efe6d2",
    "red": "#b4443a",
    "slate": "#4b5566",
    "gold": "#f2c14e",
    "white": "#f7f5ef",
    "glass": "#a9d5e8a0",
    "blue": "#3d6aa8",
    "thatch": "#c79a4b",
}
INDEX = {name: place for place, name in enumerate(PALETTE)}


@dataclass(frozen=True, slots=True)
class Builder:
    """One who builds: an id, a name for people, and a skill from 0 to 4."""

    builder_id: str
    name: str
    skill: int


BUILDERS = (
    Builder("mason", "Mason", 4),
    Builder("joiner", "Joiner", 3),
    Builder("tiler", "Tiler", 2),
    Builder("apprentice", "Apprentice", 1),
    Builder("dabbler", "Dabbler", 0),
)


class Build:
    """Blocks by their place: x to the right, y up, z to the front."""

    def __init__(self, skill: int, seed: str) -> None:
        self.skill = skill
        self.chance = random.Random(f"{seed} {skill}")  # noqa: S311 - not a secret
        self.blocks: dict[tuple[int, int, int], str] = {}

    def put(self, x: int, y: int, z: int, name: str) -> None:
        """One block; a weak builder knows few materials."""
        plain = {"dark stone": "stone", "dark wood": "wood", "blossom": "leaf", "slate": "stone", "plaster": "white"}
        self.blocks[x, y, z] = plain.get(name, name) if self.skill < 2 else name

    def box(self, low: tuple[int, int, int], high: tuple[int, int, int], name: str) -> None:
        """A filled box, corners included."""
        for x in range(low[0], high[0] + 1):
            for y in range(low[1], high[1] + 1):
                for z in range(low[2], high[2] + 1):
                    self.put(x, y, z, name)

    def disc(self, at: tuple[int, int, int], radius: float, name: str, inner: float = -1.0) -> None:
        """A flat disc, or a ring."""
        reach = math.ceil(radius)
        for x in range(-reach, reach + 1):
            for z in range(-reach, reach + 1):
                if inner < math.hypot(x, z) <= radius:
                    self.put(at[0] + x, at[1], at[2] + z, name)

    def tower(self, at: tuple[int, int, int], height: int, radius: float, name: str, other: str) -> None:
        """A round, hollow tower; with some skill in two colors or with courses of another stone."""
        for y in range(height):
            ring = other if self.skill >= 2 and (y // 3) % 2 else name
            self.disc((at[0], at[1] + y, at[2]), radius, ring, radius - 1.4)

    def cone(self, at: tuple[int, int, int], radius: float, steep: float, name: str) -> None:
        """A pointed roof."""
        step, y = radius, 0
        while step > 0.3:
            self.disc((at[0], at[1] + y, at[2]), step, name)
            step, y = step - 1 / steep, y + 1

    def gable(self, low: tuple[int, int], high: tuple[int, int], y: int, name: str) -> None:
        """A roof over a rectangle, its ridge along x; flat without the skill."""
        if self.skill < 1:
            self.box((low[0], y, low[1]), (high[0], y, high[1]), name)
            return
        front, back = low[1] - 1, high[1] + 1
        while front <= back:
            self.box((low[0] - 1, y, front), (high[0] + 1, y, front), name)
            self.box((low[0] - 1, y, back), (high[0] + 1, y, back), name)
            front, back, y = front + 1, back - 1, y + 1

    def tree(self, x: int, y: int, z: int) -> None:
        """A small tree: a stump with a ball of leaves."""
        tall = self.chance.randint(3, 5)
        self.box((x, y, z), (x, y + tall, z), "dark wood")
        leaf = "blossom" if self.chance.random() < 0.3 else "leaf"
        for dy in range(-1, 3):
            self.disc((x, y + tall + dy, z), 2.3 - abs(dy - 0.3) * 0.8, leaf)

    def island(self, radius: int, top: str = "grass", around: str = "") -> None:
        """The ground: a disc, with skill uneven, with earth below and a sea around."""
        if self.skill == 0:
            self.box((-radius, 0, -radius), (radius, 0, radius), top)
            return
        for x in range(-radius - 2, radius + 3):
            for z in range(-radius - 2, radius + 3):
                away = math.hypot(x, z) + (self.chance.random() * 1.8 if self.skill >= 2 else 0)
                if away <= radius:
                    self.put(x, 0, z, top)
                    if self.skill >= 3 and away < radius - 1:
                        self.put(x, -1, z, "earth")
                    if self.skill >= 4 and away < radius - 4:
                        self.put(x, -2, z, "dark stone")
                elif around and away <= radius + 2.4:
                    self.put(x, 0, z, around)

    def trees(self, count: int, near: float, far: float, y: int = 1) -> None:
        """Trees around the middle, where nothing stands yet."""
        for _ in range(count):
            turn, away = self.chance.random() * math.tau, near + (far - near) * self.chance.random()
            x, z = round(away * math.cos(turn)), round(away * math.sin(turn))
            if (x, y, z) not in self.blocks:
                self.tree(x, y, z)

    def finish(self) -> None:
        """Weak builders forget blocks."""
        forgotten = (0.14, 0.04, 0.0, 0.0, 0.0)[self.skill]
        for place in sorted(self.blocks):
            if self.chance.random() < forgotten:
                del self.blocks[place]


def _lighthouse(made: Build) -> None:
    made.island(11, "sand" if made.skill == 0 else "grass", "water")
    for step, radius in enumerate((6.5, 5.2)[: made.skill]):
        made.disc((0, step + 1, 0), radius, "stone")
    height = 12 + 3 * made.skill
    for y in range(height):
        band = "red" if (y // 4) % 2 and made.skill >= 1 else "white"
        radius = 3.6 - 1.3 * y / height if made.skill >= 2 else 2.6
        made.disc((0, y + 2, 0), radius, band, radius - 1.5)
    top = height + 2
    made.disc((0, top, 0), 3.4, "dark stone" if made.skill >= 2 else "white")
    if made.skill >= 2:
        made.disc((0, top + 1, 0), 3.4, "dark wood", 2.6)
    made.disc((0, top + 1, 0), 1.8, "gold")
    made.disc((0, top + 2, 0), 1.8, "gold")
    if made.skill >= 1:
        made.cone((0, top + 3, 0), 2.6, 1.0, "red")
    if made.skill >= 3:
        made.box((4, 1, -2), (8, 4, 2), "plaster")
        made.gable((4, -2), (8, 2), 5, "slate")
        made.put(6, 2, 3, "dark wood")
        made.box((6, 1, 2), (6, 2, 2), "dark wood")
        made.trees(5, 7.5, 9.5)


def _castle(made: Build) -> None:
    made.island(15, "grass", "water" if made.skill >= 3 else "")
    wall, tall = 9, 5 + made.skill // 2
    made.box((-wall, 1, -wall), (wall, tall, -wall), "stone")
    made.box((-wall, 1, wall), (wall, tall, wall), "stone")
    made.box((-wall, 1, -wall), (-wall, tall, wall), "stone")
    made.box((wall, 1, -wall), (wall, tall, wall), "stone")
    if made.skill >= 2:
        for along in range(-wall, wall + 1, 2):
            for x, z in ((along, -wall), (along, wall), (-wall, along), (wall, along)):
                made.put(x, tall + 1, z, "dark stone")
    corners = ((-wall, -wall), (wall, -wall), (-wall, wall), (wall, wall))
    for x, z in corners if made.skill >= 1 else corners[:2]:
        made.tower((x, 1, z), tall + 4, 2.6, "stone", "dark stone")
        if made.skill >= 2:
            made.cone((x, tall + 5, z), 3.4, 1.2, "red" if made.skill < 4 else "blue")
    for x in range(-1, 2):
        for y in range(1, 4):
            made.blocks.pop((x, y, wall), None)
            if made.skill >= 3:
                made.put(x, y, wall, "dark wood")
    made.box((-3, 1, -5), (3, tall + 4, 0), "stone" if made.skill < 3 else "plaster")
    if made.skill >= 3:
        made.gable((-3, -5), (3, 0), tall + 5, "slate")
        for x in (-2, 0, 2):
            made.box((x, 4, 0), (x, 5, 0), "glass")
        made.box((0, tall + 5, -9), (0, tall + 13, -9), "dark wood")
        made.box((1, tall + 11, -9), (3, tall + 12, -9), "gold")
        made.trees(6, 11.5, 14)


def _cottage(made: Build) -> None:
    made.island(11)
    made.box((-5, 1, -3), (5, 5, 3), "plaster")
    if made.skill >= 2:
        for x in (-5, 0, 5):
            for z in (-3, 3):
                made.box((x, 1, z), (x, 5, z), "dark wood")
        made.box((-5, 5, 3), (5, 5, 3), "dark wood")
        made.box((-5, 1, -3), (5, 1, 3), "stone")
    made.gable((-5, -3), (5, 3), 6, "thatch" if made.skill >= 3 else "red")
    made.box((-2 if made.skill else 0, 1, 3), (-1, 3, 3), "wood")
    if made.skill >= 1:
        for x in (-4, 2):
            made.box((x, 3, 3), (x + 1, 4, 3), "glass")
    if made.skill >= 2:
        made.box((3, 5, -1), (4, 12, 0), "stone")
    if made.skill >= 3:
        made.box((-2, 1, 4), (-1, 1, 4), "stone")
        for step in range(5, 10):
            made.put(-1 - step // 7, 0, step, "sand")
        made.trees(5, 7.5, 9.5)
    if made.skill >= 4:
        for x in range(-8, 9, 2):
            made.put(x, 1, 7, "dark wood")
        flowers = ("red", "gold", "blossom")
        for _ in range(14):
            made.put(made.chance.randint(-8, 8), 1, made.chance.choice((5, 6, 8)), made.chance.choice(flowers))


def _bridge(made: Build) -> None:
    long = 16
    for x in range(-long, long + 1):
        for z in range(-9, 10):
            bend = 3 * math.sin(z / 5) if made.skill >= 3 else 0
            wet = abs(x - bend) < 9
            made.put(x, 0, z, "water" if wet else "grass")
            if made.skill >= 3 and not wet:
                made.put(x, -1, z, "earth")
                if abs(x - bend) > 11 and made.chance.random() < 0.7:
                    made.put(x, 1, z, "grass")
    for x in range(-13, 14):
        y = round(5 * math.cos(x / 13 * 1.5)) + 1 if made.skill >= 1 else 3
        for z in range(-2, 3):
            made.put(x, y, z, "stone" if made.skill else "wood")
            low = 1 if abs(x) in (5, 6, 12, 13) or (made.skill < 1 and x % 6 == 0) else y
            if made.skill >= 2 and abs(x) not in (5, 6):
                away = (abs(x) - 5.5) if abs(x) > 6 else abs(x)
                low = min(y, max(1, y - 1 - int(away < 5 and abs(x) > 6) * max(0, round(3 - away))))
            for under in range(low, y):
                made.put(x, under, z, "dark stone" if abs(z) < 2 else "stone")
        if made.skill >= 2:
            made.put(x, y + 1, -2, "dark stone")
            made.put(x, y + 1, 2, "dark stone")
    if made.skill >= 3:
        for x in (-9, 0, 9):
            top = max(y for (bx, y, bz) in made.blocks if bx == x and bz == 2)
            made.box((x, top + 1, 2), (x, top + 2, 2), "dark wood")
            made.put(x, top + 3, 2, "gold")
    if made.skill >= 4:
        made.box((1, 1, 6), (4, 1, 7), "dark wood")
        made.box((2, 2, 6), (2, 4, 6), "wood")
        for x, z in ((-14, -6), (14, -5), (-13, 6), (14, 7)):
            made.tree(x, 1, z)


def _windmill(made: Build) -> None:
    made.island(12)
    height = 13 if made.skill else 9
    for y in range(height):
        radius = 4.4 - 1.8 * y / height if made.skill >= 2 else 3.2
        wall = "stone" if y < 3 and made.skill >= 2 else "plaster"
        made.disc((0, y + 1, 0), radius, wall, radius - 1.5)
    if made.skill >= 1:
        made.cone((0, height + 1, 0), 3.4, 1.1, "slate" if made.skill >= 3 else "red")
    hub, front = height - 1, 4 if made.skill < 2 else 3
    made.box((0, hub, 1), (0, hub, front + 1), "dark wood")
    for arm in range(4 if made.skill else 3):
        turn = arm * math.pi / 2 + (0.5 if made.skill >= 3 else 0.0)
        for step in range(1, 9):
            x, y = round(step * math.cos(turn)), round(step * math.sin(turn))
            made.put(x, hub + y, front + 1, "dark wood")
            if made.skill >= 2 and step > 2:
                made.put(x - round(math.sin(turn)), hub + y + round(math.cos(turn)), front + 1, "white")
    made.box((0, 1, 4), (0, 3, 4), "wood")
    if made.skill >= 3:
        for y in (5, 8):
            made.put(0, y, 3, "glass")
        made.disc((0, 5, 0), 5.4, "wood", 4.0)
        for x in range(5, 11):
            for z in range(-8, -2):
                made.put(x, 1, z, "thatch" if (x + z) % 2 else "gold")
        made.trees(4, 8, 10)


def _ship(made: Build) -> None:
    wide = 14
    for x in range(-wide, wide + 1):
        for z in range(-7, 8):
            if made.skill and math.hypot(x / wide, z / 7) <= 1:
                made.put(x, 0, z, "water")
    for x in range(-9, 10):
        half = 2.6 * math.sqrt(max(0.0, 1 - (x / 10.5) ** 2)) if made.skill >= 1 else 2
        rise = (abs(x) // 4) if made.skill >= 2 else 0
        for z in range(-3, 4):
            if abs(z) > half + 0.4:
                continue
            made.put(x, 1, z, "dark wood")
            for y in range(2, 4 + rise):
                if abs(z) > half - 0.7 or abs(x) > 8:
                    made.put(x, y, z, "dark wood" if y % 2 else "wood")
            made.put(x, 2, z, "wood")
    for x, tall in ((-4, 12), (3, 15))[: 2 if made.skill >= 2 else 1]:
        made.box((x, 2, 0), (x, tall, 0), "dark wood")
        for low, high, reach in ((4, 7, 4), (9, tall - 1, 3))[: 2 if made.skill >= 3 else 1]:
            for y in range(low, high + 1):
                belly = 1 if made.skill >= 3 and low < y < high else 0
                made.box((x + 1 + belly, y, -reach), (x + 1 + belly, y, reach), "white")
    if made.skill >= 3:
        made.box((-9, 5, -1), (-7, 6, 1), "plaster")
        made.put(-10, 5, 0, "gold")
        for step in range(5):
            made.put(10 + step, 5 + step // 2, 0, "dark wood")
        made.box((4, 15, 0), (6, 16, 0), "red")
    if made.skill >= 4:
        made.box((3, 8, 3), (3, 8, 3), "blue")
        for x in (-6, -2, 2, 6):
            made.put(x, 3, 3, "gold")
            made.put(x, 3, -3, "gold")


PROMPTS: dict[str, tuple[str, Callable[[Build], None]]] = {
    "lighthouse": ("a lighthouse on a small island", _lighthouse),
    "castle": ("a castle with four towers and a gate", _castle),
    "cottage": ("a cottage with a garden", _cottage),
    "bridge": ("a stone bridge over a river", _bridge),
    "windmill": ("a windmill beside a field", _windmill),
    "ship": ("a sailing ship at sea", _ship),
}
SUFFIXES = {"voxel": "json", "svg": "svg", "html": "html"}
ASKED = {"voxel": "Build", "svg": "Draw", "html": "Make a page that shows"}


def build(prompt_id: str, skill: int) -> Build:
    """What a builder of this skill makes of a prompt."""
    made = Build(skill, prompt_id)
    PROMPTS[prompt_id][1](made)
    made.finish()
    return made


def answers(kind: MadeKind) -> Iterator[tuple[Builder, str, bytes]]:
    """Every builder's answer to every prompt, as the bytes of a file."""
    write = {"voxel": voxel_file, "svg": svg_file, "html": html_file}[kind]
    for builder in BUILDERS:
        for prompt_id in PROMPTS:
            yield builder, prompt_id, write(build(prompt_id, builder.skill))


def voxel_file(made: Build) -> bytes:
    """The build as a voxel file."""
    rows = [[x, y, z, INDEX[name]] for (x, y, z), name in sorted(made.blocks.items())]
    return json.dumps({"palette": list(PALETTE.values()), "blocks": rows}, separators=(",", ":")).encode()


def svg_file(made: Build) -> bytes:
    """The build as a drawing, seen from a corner: the blocks' visible faces, from the back to the front."""
    faces = list(_faces(made))
    xs = [x for _, points in faces for x, _ in points]
    ys = [y for _, points in faces for _, y in points]
    left, top, wide, tall = min(xs) - 20, min(ys) - 20, max(xs) - min(xs) + 40, max(ys) - min(ys) + 40
    sky = ("#ffffff", "#eef4f8", "#dcebf5", "#d4e6f4", "#cfe3f5")[made.skill]
    drawn = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{left} {top} {wide} {tall}">']
    drawn.append(f'<rect x="{left}" y="{top}" width="{wide}" height="{tall}" fill="{sky}"/>')
    if made.skill >= 3:
        drawn.append(f'<circle cx="{left + wide - 50}" cy="{top + 50}" r="22" fill="#f8d874"/>')
    for color, points in faces:
        where = " ".join(f"{x},{y}" for x, y in points)
        drawn.append(f'<polygon points="{where}" fill="{color}" stroke="{color}" stroke-width=".6"/>')
    return "".join([*drawn, "</svg>"]).encode()


def _faces(made: Build) -> Iterator[tuple[str, tuple[tuple[int, int], ...]]]:
    """The faces that are seen from above, the right and the front: their color, and four corners on paper."""

    def paper(x: int, y: int, z: int) -> tuple[int, int]:
        return (x - z) * 8, (x + z) * 4 - y * 10

    for x, y, z in sorted(made.blocks, key=lambda place: (sum(place), place)):
        if all(near in made.blocks for near in ((x, y + 1, z), (x + 1, y, z), (x, y, z + 1))):
            continue
        name = made.blocks[x, y, z]
        a, b, c, d = paper(x, y + 1, z), paper(x + 1, y + 1, z), paper(x + 1, y + 1, z + 1), paper(x, y + 1, z + 1)
        e, f, g = paper(x + 1, y, z), paper(x + 1, y, z + 1), paper(x, y, z + 1)
        if (x, y + 1, z) not in made.blocks:
            yield _shade(name, 1.06), (a, b, c, d)
        if (x + 1, y, z) not in made.blocks:
            yield _shade(name, 0.76), (b, e, f, c)
        if (x, y, z + 1) not in made.blocks:
            yield _shade(name, 0.9), (d, c, f, g)


def _shade(name: str, light: float) -> str:
    digits = PALETTE[name]
    parts = (min(255, round(int(digits[place : place + 2], 16) * light)) for place in (1, 3, 5))
    return "#" + "".join(f"{part:02x}" for part in parts)


def html_file(made: Build) -> bytes:
    """A page with the drawing; better builders add a slider from day to night, and clouds that drift."""
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'><style>html,body{margin:0;height:100%}"
        "body{display:grid;place-items:center;background:#cfe3f5;font:16px system-ui;transition:background .2s}"
        "svg{width:min(96vw,120vh);height:auto;max-height:84vh}label{position:fixed;bottom:12px;left:50%;"
        "transform:translateX(-50%);background:#ffffffcc;padding:6px 14px;border-radius:20px;white-space:nowrap}"
        "i{position:fixed;top:9%;left:5%;width:120px;height:34px;border-radius:40px;background:#ffffffb0}</style>",
        svg_file(made).decode().replace("<rect", "<rect opacity='0'", 1),
    ]
    if made.skill >= 2:
        parts.append("<label>Time of day <input type='range' min='0' max='100' value='20'></label>")
        parts.append(
            "<script>const s=document.querySelector('input'),d=()=>{const n=s.value/100;"
            "document.body.style.background=`hsl(215 45% ${86-72*n}%)`;"
            "document.querySelector('svg').style.filter=`brightness(${1-.55*n})`};s.oninput=d;d()</script>"
        )
    if made.skill >= 3:
        parts.append(
            "<i></i><i style='top:20%;left:64%'></i><script>const c=[...document.querySelectorAll('i')];let t=0;"
            "const go=()=>{t+=.4;c.forEach((e,k)=>e.style.left=(t*(1+k*.6)+k*300)%(innerWidth+160)-140+'px');"
            "requestAnimationFrame(go)};matchMedia('(prefers-reduced-motion: reduce)').matches||go()</script>"
        )
    return "".join([*parts, "</html>"]).encode()
