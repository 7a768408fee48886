#!/usr/bin/env bash
# Runs `tiltyard gate` with the inputs of action.yml, given as variables; nothing of them is ever read as shell code.
# An input without a value is left to the gate, whose defaults depend on what it judges.
# The exit code is the gate's: 0 passes, 3 fails, 1 and 2 are errors.
set -uo pipefail

folder="${RUNNER_TEMP:-$(mktemp -d)}/tiltyard-gate"
mkdir -p "$folder"

options=()
value() { if [ -n "${2//[[:space:]]/}" ]; then options+=("$1" "$2"); fi; }
flag() {
    case "$2" in
    true) options+=("$1") ;;
    false | "") ;;
    *)
        echo "${1#--} is '$2': expected true or false." >&2
        exit 2
        ;;
    esac
}
lines() { while IFS= read -r one; do value "$1" "$one"; done <<<"$2"; }

lines --in "${BATTLES:-}"
lines --score "${SCORE:-}"
value --model "${MODEL:-}"
value --margin "${MARGIN:-}"
value --alpha "${ALPHA:-}"
value --by "${BY:-}"
value --dimension "${DIMENSION:-}"
value --picked-from "${PICKED_FROM:-}"
flag --pool-dimensions "${POOL_DIMENSIONS:-}"
flag --anytime "${ANYTIME:-}"
flag --allow-unknown "${ALLOW_UNKNOWN:-}"

tiltyard gate ${options[@]+"${options[@]}"} --markdown "$folder/gate.md" --junit "$folder/gate.xml" \
    --json "$folder/gate.json" -- "$NEW" "$OLD"
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
