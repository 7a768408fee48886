"""Colours for blocks that are named by their material, as in builds of MineBench: `oak_planks`, `red_wool`, `water`.

The colours are ours, one for each word; there are no textures. Whatever is not known is grey.
"""

from __future__ import annotations

import re

UNKNOWN = "#9c9a96"
NOTHING = frozenset({"air", "cave_air", "void_air", "barrier", "structure_void", "light"})
"""Blocks that are not drawn."""

_COLOURS = {
    "#f2f2f0": "white snow quartz calcite bone",
    "#e07b24": "orange pumpkin",
    "#c04fbf": "magenta",
    "#6fb4e6": "light_blue",
    "#f3cf3d": "yellow gold hay honeycomb sponge",
    "#79c83a": "lime slime melon",
    "#ee9bb8": "pink cherry",
    "#4b4e54": "gray deepslate basalt tuff netherite ancient_debris",
    "#a2a29c": "light_gray andesite gravel clay",
    "#2a9d9a": "cyan prismarine warped",
    "#8036a8": "purple crying_obsidian",
    "#3a4eb4": "blue lapis",
    "#6d4a2d": "brown dark_oak spruce soul_sand soul_soil mud",
    "#56782f": "green cactus moss azalea vine",
    "#b3312c": "red redstone crimson mangrove",
    "#202024": "black obsidian coal blackstone bedrock",
    "#8a8a88": "stone cobblestone smooth_stone furnace",
    "#c8c8c4": "diorite iron",
    "#9c6b58": "granite",
    "#a9583f": "bricks brick terracotta",
    "#4a262b": "nether_bricks nether_brick netherrack",
    "#b8905a": "oak planks wood barrel chest bookshelf crafting_table ladder",
    "#d8c490": "birch sand sandstone end_stone scaffolding",
    "#b9652f": "red_sand red_sandstone acacia copper",
    "#57a085": "oxidized_copper oxidized weathered",
    "#b0745a": "jungle",
    "#8a5f3f": "dirt podzol farmland path mycelium",
    "#6aa84a": "grass_block grass fern bamboo",
    "#4c8a35": "leaves sapling lily_pad kelp seagrass",
    "#7d5c38": "log stem oak_log oak_wood",
    "#f5d67a": "glowstone shroomlight torch lantern lamp campfire candle",
    "#d8eee8": "sea_lantern beacon end_rod",
    "#e8651e": "lava magma fire",
    "#3fbf63": "emerald",
    "#67d8d6": "diamond",
    "#9166c4": "amethyst purpur chorus",
    "#a5c8f5d0": "ice packed_ice",
    "#3f73d8b0": "water bubble_column",
    "#cfe6ee70": "glass",
    "#3a3344b0": "tinted_glass",
}
_BY_NAME = {name: colour for colour, names in _COLOURS.items() for name in names.split()}
_LONGEST_FIRST = sorted(_BY_NAME, key=lambda name: (-len(name), name))
_KNOWN = re.compile(rf"(?<![a-z])(?:{'|'.join(_LONGEST_FIRST)})(?![a-z])")


def block_colour(kind: str) -> str:
    """The colour of a kind of block, `#rrggbb` or `#rrggbbaa`; empty for one that is not drawn.

    It is named in any case, with or without `minecraft:` and states in brackets.
    """
    name = re.sub(r"[\s-]+", "_", kind.strip().lower().rpartition(":")[2].split("[")[0])
    if name in NOTHING:
        return ""
    result = _KNOWN.search(name.replace("grey", "gray"))
    if name.endswith("leaves") and not name.startswith("cherry"):
        return _BY_NAME["leaves"]
    colour = UNKNOWN if result is None else _BY_NAME[result[0]]
    return f"{colour}90" if "glass" in name and len(colour) == len(UNKNOWN) else colour
