-- The tables of an arena. `events` is the truth and only grows; `matchups` and `checkpoints` follow from it.
-- BIG is a whole number of 63 bits, NAME a text that is sorted by its bytes, BYTES what it says: `database.py` spells
-- them for SQLite and PostgreSQL.

CREATE TABLE events (
    seq BIG PRIMARY KEY,
    at BIG NOT NULL,
    kind TEXT NOT NULL,
    body TEXT NOT NULL,
    hash TEXT NOT NULL
);
CREATE INDEX events_rare ON events (kind, seq)
    WHERE kind NOT IN ('matchup_served', 'voted', 'revealed', 'skipped', 'expired', 'undone');

-- One row for each matchup that was served, by the event `seq`. Models (`a`, `b`) and prompts are numbered in the order
-- in which they were added. `asked`, `answer_a` and `answer_b` are the events with the texts that were shown. Its vote,
-- if there is one, is `choice`, the event `vote_seq` at `vote_at`, from `vote_block`; `counts` is 1 if it counts. It can
-- be undone until `undo_until` while its names are held back. `unrendered`: which answer could not be shown.
CREATE TABLE matchups (
    id NAME PRIMARY KEY,
    seq BIG NOT NULL,
    voter NAME NOT NULL,
    block NAME NOT NULL,
    a INTEGER NOT NULL,
    b INTEGER NOT NULL,
    prompt INTEGER NOT NULL,
    asked BIG NOT NULL,
    answer_a BIG NOT NULL,
    answer_b BIG NOT NULL,
    lane TEXT NOT NULL,
    served_at BIG NOT NULL,
    expires_at BIG NOT NULL,
    status TEXT NOT NULL,
    choice TEXT,
    unrendered TEXT NOT NULL,
    closed_at BIG,
    undo_until BIG,
    vote_seq BIG,
    vote_at BIG,
    vote_block NAME,
    counts INTEGER
);
CREATE INDEX matchups_voter ON matchups (voter);
CREATE INDEX matchups_block ON matchups (block, served_at) WHERE block <> '';
CREATE UNIQUE INDEX matchups_vote ON matchups (vote_seq) WHERE vote_seq IS NOT NULL;
CREATE INDEX matchups_undo ON matchups (undo_until) WHERE undo_until IS NOT NULL;

-- What events say in words: the log has `digest`, which is that of `salt` and `text`. `kind` and `id` are what it is about
-- (`events.subject_of`), `at` is the time of the event. Any row may be erased.
CREATE TABLE texts (
    digest NAME PRIMARY KEY, kind NAME NOT NULL, id NAME NOT NULL, salt TEXT NOT NULL, text TEXT NOT NULL, at BIG NOT NULL
);
CREATE INDEX texts_subject ON texts (kind, id);

CREATE TABLE checkpoints (seq BIG PRIMARY KEY, state BYTES NOT NULL);

-- Answers that are files, as voters are shown them; `source` is the SHA-256 of the file before it was cleaned.
CREATE TABLE files (sha256 NAME PRIMARY KEY, media_type TEXT NOT NULL, size BIG NOT NULL, source NAME NOT NULL);
CREATE TABLE file_parts (sha256 NAME, number INTEGER, content BYTES NOT NULL, PRIMARY KEY (sha256, number));

-- What must be deletable: none of it is in the log, and no rating needs it. `voters` is the link that "forget me"
-- deletes. `address_keys` are random keys with which addresses are hashed, each for one period; `address_blocks` says
-- which random key of the log stands for which block, whose name is a keyed hash. The name of an invitation is the hash
-- of a link's secret, and `key` stands for it in the log; all who use one with a `voter`, a reviewer's, are that voter.
CREATE TABLE voters (
    cookie_hash NAME PRIMARY KEY,
    voter NAME NOT NULL,
    created_at BIG NOT NULL,
    invitation NAME
);
CREATE INDEX voters_voter ON voters (voter);
CREATE TABLE address_keys (
    purpose NAME, period BIG, key TEXT NOT NULL, expires_at BIG NOT NULL, PRIMARY KEY (purpose, period)
);
CREATE TABLE address_blocks (name NAME PRIMARY KEY, key NAME NOT NULL, expires_at BIG NOT NULL);
CREATE INDEX address_blocks_expires ON address_blocks (expires_at);
CREATE TABLE invitations (
    name NAME PRIMARY KEY,
    key NAME NOT NULL UNIQUE,
    label TEXT NOT NULL,
    most INTEGER NOT NULL,
    uses INTEGER NOT NULL,
    created_at BIG NOT NULL,
    expires_at BIG,
    revoked_at BIG,
    voter NAME
);
CREATE TABLE counters (key NAME, slot BIG, count INTEGER NOT NULL, expires_at BIG NOT NULL, PRIMARY KEY (key, slot));
CREATE INDEX counters_expires ON counters (expires_at);
CREATE TABLE ended_sessions (name NAME PRIMARY KEY, expires_at BIG NOT NULL);
CREATE TABLE reports (
    matchup_id NAME, side TEXT, at BIG NOT NULL, reason TEXT NOT NULL, settled_at BIG, PRIMARY KEY (matchup_id, side)
);

-- The operator's texts, what was screened last, when everybody was forgotten last, the random id of the arena, and the
-- number of this schema.
CREATE TABLE site_texts (name NAME PRIMARY KEY, text TEXT NOT NULL);
CREATE TABLE weekly_reports (
    week NAME PRIMARY KEY,
    since BIG NOT NULL,
    until BIG NOT NULL,
    seq BIG NOT NULL,
    phase INTEGER NOT NULL,
    status TEXT NOT NULL,
    votes BIG NOT NULL,
    written_at BIG NOT NULL,
    page TEXT NOT NULL,
    sections TEXT NOT NULL,
    report TEXT NOT NULL
);
INSERT INTO site_texts VALUES ('schema', '4');
