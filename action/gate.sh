#!/usr/bin/env bash
# Runs `tiltyard gate` with the inputs of action.yml, given as variables; nothing of them is ever read as shell code.
# The exit code is the gate's: 0 passes, 3 fails, 1 and 2 are errors.
set -uo pipefail

folder="${RUNNER_TEMP:-$(mktemp -d)}/tiltyard-gate"
mkdir -p "$folder"

options=(--alpha "$ALPHA")
if [ -n "${MARGIN:-}" ]; then options+=(--margin "$MARGIN"); fi
while IFS= read -r place; do
    if [ -n "$place" ]; then options+=(--in "$place"); fi
done <<<"${BATTLES:-}"
if [ -n "${MODEL:-}" ]; then options+=(--model "$MODEL"); fi
if [ -n "${BY:-}" ]; then options+=(--by "$BY"); fi
if [ "${ANYTIME:-false}" = true ]; then options+=(--anytime); fi
if [ "${ALLOW_UNKNOWN:-false}" = true ]; then options+=(--allow-unknown); fi

tiltyard gate "${options[@]}" --markdown "$folder/gate.md" --junit "$folder/gate.xml" --json "$folder/gate.json" \
    -- "$NEW" "$OLD"
code=$?

if [ -f "$folder/gate.json" ]; then
    cat "$folder/gate.md" >>"$GITHUB_STEP_SUMMARY"
    python - "$folder" >>"$GITHUB_OUTPUT" <<'PYTHON'
import json, pathlib, sys

folder = pathlib.Path(sys.argv[1])
found = json.loads((folder / "gate.json").read_text(encoding="utf-8"))
print("verdict=" + found["verdict"])
print("sentence=" + " ".join(found["sentence"].split()))
print(f"markdown={folder / 'gate.md'}")
print(f"junit={folder / 'gate.xml'}")
PYTHON
fi
exit "$code"
