"""Write a small folder of drawings that three made-up models "drew": something to import into an arena.

python examples/drawings/make_drawings.py drawings
"""

import json
import math
import sys
from pathlib import Path

PROMPTS = {
    "sun": "Draw a sun over the sea.",
    "house": "Draw a house with a red roof.",
    "flower": "Draw a flower with many petals.",
    "stars": "Draw a night sky full of stars.",
}
STYLES = {"kestrel": (12, "#e8a33d"), "heron": (7, "#d9534f"), "wren": (24, "#5b8bd0")}


def drawing(prompt: str, points: int, colour: str) -> str:
    """A drawing: the same idea for a prompt, in the style of a model."""
    rays = [(math.cos(2 * math.pi * i / points), math.sin(2 * math.pi * i / points)) for i in range(points)]
    shapes = {
        "sun": [f'<line x1="50" y1="40" x2="{50 + 30 * x:.1f}" y2="{40 + 30 * y:.1f}"/>' for x, y in rays]
        + [f'<circle cx="50" cy="40" r="15" fill="{colour}"/>', '<rect y="75" width="100" height="25" fill="#36c"/>'],
        "house": [
            '<rect x="25" y="50" width="50" height="40" fill="#eee"/>',
            '<path d="M20 50 50 25 80 50z" fill="#c33"/>',
        ]
        + [f'<rect x="{28 + 44 * i / points:.1f}" y="60" width="3" height="8"/>' for i in range(points)],
        "flower": [
            f'<ellipse cx="{50 + 20 * x:.1f}" cy="{45 + 20 * y:.1f}" rx="9" ry="9" fill="{colour}"/>' for x, y in rays
        ]
        + ['<circle cx="50" cy="45" r="10" fill="#fc3"/>', '<path d="M50 65V98" stroke="#393" fill="none"/>'],
        "stars": ['<rect width="100" height="100" fill="#113"/>']
        + [f'<circle cx="{50 + 44 * x:.1f}" cy="{50 + 44 * y * x:.1f}" r="1.5" fill="{colour}"/>' for x, y in rays],
    }
    inside = "".join(shapes[prompt])
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 100 100" stroke="#333">{inside}</svg>\n'


def main(folder: Path) -> None:
    """Write prompts.jsonl, and a folder of drawings for each model."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [json.dumps({"prompt_id": name, "text": text}) for name, text in PROMPTS.items()]
    (folder / "prompts.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    for model, (points, colour) in STYLES.items():
        (folder / model).mkdir(exist_ok=True)
        for prompt in PROMPTS:
            (folder / model / f"{prompt}.svg").write_text(drawing(prompt, points, colour), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "drawings"))
