"""What `tiltyard` alone prints: what it is for, and the first line to type for each job."""

from __future__ import annotations

OVERVIEW = """\
Tiltyard {version}: which model is better, and how sure are we?

Start here
  tiltyard demo                      the full workflow in a minute: no key needed
  tiltyard rate FILE                 a leaderboard from any file of battles

The three jobs
  tiltyard run CONFIG --mode pilot   judge the answers of several models
  tiltyard place --help              place one new model among human votes
  tiltyard arena --help              a live arena where people vote blind

Around them
  tiltyard battles check FILE        is it sound? `stats`, `convert`
  tiltyard generate CONFIG           fill the answer files from the models
  tiltyard judge check --help        hold a judge against people
  tiltyard report RUN_DIR            make a run's report anew

`tiltyard COMMAND --help` explains a command; `tiltyard --install-completion`
teaches them to your shell.
"""


def overview(version: str) -> str:
    """The text, at most 80 columns wide."""
    return OVERVIEW.format(version=version)
