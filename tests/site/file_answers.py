"""Small arenas whose answers are files, for tests."""

from __future__ import annotations

from tests.site.sites import MODELS
from tiltyard.arena import Arena
from tiltyard.arena import events as e
from tiltyard.arena.store.files import CleanFile

TYPES = {
    "image": "image/webp",
    "svg": "image/svg+xml",
    "html": "text/html; charset=utf-8",
    "voxel": "application/json",
    "model3d": "model/gltf-binary",
    "audio": "audio/mpeg",
    "video": "video/mp4",
}


def add_files(arena: Arena, kind: str, length: int = 20) -> dict[str, bytes]:
    """A prompt that every model answers with a file; what each answered, all of the same length."""
    made = {model: (f"{kind} {number} ".encode() * length)[:length] for number, model in enumerate(MODELS)}
    files = {model: CleanFile(content=content, media_type=TYPES[kind]) for model, content in made.items()}
    arena.append(
        [
            e.PromptAdded(prompt_id=kind, text=f"Make a {kind}."),
            *(
                e.ResponseAdded(
                    response_id=f"{kind}-{number}",
                    model=model,
                    prompt_id=kind,
                    text="",
                    answer_kind=kind,
                    file=files[model].sha256,
                )
                for number, model in enumerate(MODELS)
            ),
        ],
        list(files.values()),
    )
    return made


def only(arena: Arena, kind: str, length: int = 20) -> dict[str, bytes]:
    """Serve nothing but files of this kind."""
    made = add_files(arena, kind, length)
    arena.append([e.PromptDisabled(prompt_id=f"p{j}") for j in range(3)])
    return made
