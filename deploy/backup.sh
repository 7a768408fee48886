#!/bin/sh
# /opt/tiltyard/share/backup.sh: copy the arena, check the copy against every head kept before, publish the new head.
# Settings: arena.env (TILTYARD_DB) and backup.env. Run by tiltyard-backup.service; by hand it works the same.
set -eu
umask 077

: "${TILTYARD_DB:?is not set: the address of the arena}"
: "${BACKUP_DIR:?is not set: where copies go}"
PATH="${TILTYARD_BIN:-/opt/tiltyard/bin}:$PATH"
day=$(date -u +%Y-%m-%dT%H%M%SZ)
heads="$BACKUP_DIR/heads"
mkdir -p "$heads"

# The log must still contain every head that was kept; the first failure is the night to look at.
set --
for head in "$heads"/*.json; do
    [ -e "$head" ] && set -- "$@" --head "@$head"
done

case "$TILTYARD_DB" in
sqlite:*)
    copy="$BACKUP_DIR/arena-$day.db"
    tiltyard arena backup --out "$copy"
    tiltyard arena verify --db "sqlite:///$copy" "$@"
    ;;
*)
    copy="$BACKUP_DIR/arena-$day.dump"
    pg_dump --format=custom --file "$copy.part" "$TILTYARD_DB"
    mv "$copy.part" "$copy"
    tiltyard arena verify "$@"
    ;;
esac

head="$heads/head-$day.json"
if [ -n "${HEAD_KEY:-}" ]; then
    tiltyard arena head --sign "$HEAD_KEY" --out "$head"
else
    tiltyard arena head --out "$head"
fi
if [ -n "${PUBLISH_HEAD:-}" ]; then
    # shellcheck disable=SC2086 # a command with its options
    $PUBLISH_HEAD "$head"
fi

# Only after everything worked: copies that are too old go. Heads stay; they are small, and the older the better.
find "$BACKUP_DIR" -maxdepth 1 -type f -name 'arena-*' -mtime "+${BACKUP_DAYS:-14}" -exec rm -f {} +
