"""The configurations on the page about servers are such that the programs they are for would take them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.docs.manual import DOCS, blocks

PAGE = DOCS / "how-to" / "deploy.md"
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")


@pytest.mark.skipif(NGINX is None, reason="nginx is not installed")
def test_nginx_takes_the_configuration(tmp_path: Path) -> None:
    ((_, server),) = blocks(PAGE, "nginx")
    plain = re.sub(r" *ssl_certificate.*\n", "", server).replace("listen 443 ssl", "listen 127.0.0.1:8443")
    folders = "".join(
        f"{kind}_temp_path {tmp_path}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    whole = f"pid {tmp_path}/pid; error_log stderr; events {{}} http {{ access_log off; {folders} {plain} }}"
    (tmp_path / "nginx.conf").write_text(whole, encoding="utf-8")
    command = [str(NGINX), "-t", "-e", "stderr", "-c", str(tmp_path / "nginx.conf")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_service_starts_the_command_that_the_page_sets_up() -> None:
    ((_, unit),) = blocks(PAGE, "ini")
    (command,) = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    words = command.split()
    assert words[:3] == ["/opt/tiltyard/bin/tiltyard", "arena", "serve"]
    reference = (DOCS / "commands.md").read_text(encoding="utf-8").split("## `tiltyard arena serve`")[1]
    for option in filter(lambda word: word.startswith("--"), words):
        assert f"`{option}`" in reference.split("\n## ")[0]
    ((_, server),) = blocks(PAGE, "nginx")
    assert f"proxy_pass http://127.0.0.1:{words[words.index('--port') + 1]};" in server
