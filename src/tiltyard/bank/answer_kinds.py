"""What an answer is to the eye: a text, or a file of one of seven other kinds."""

from __future__ import annotations

import enum


class AnswerKind(enum.StrEnum):
    """The kind of an answer. Everything but a text is a file."""

    TEXT = "text"
    IMAGE = "image"
    SVG = "svg"
    HTML = "html"
    VOXEL = "voxel"
    MODEL3D = "model3d"
    AUDIO = "audio"
    VIDEO = "video"
