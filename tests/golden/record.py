"""Write the records again: `python -m tests.golden.record [NAME …]`; read the difference before you keep it.

`tournament` and `placement` are folders as the commands leave them, and are written again only when named.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.golden import making

FOLDERS = {"tournament": making.make_tournament, "placement": making.make_placement}


def main(names: list[str]) -> None:
    """Write the records of these names, or all of them."""
    for name in names or making.RECORDS:
        with TemporaryDirectory() as folder:
            if name in FOLDERS:
                FOLDERS[name](Path(folder) / name)
                shutil.rmtree(making.HERE / name, ignore_errors=True)
                shutil.copytree(Path(folder) / name, making.HERE / name)
                continue
            path = making.record_path(name)
            path.parent.mkdir(exist_ok=True)
            parts = making.RECORDS[name](Path(folder)).items()
            text = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in parts)
            path.write_text(f"{{\n{text}\n}}\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
