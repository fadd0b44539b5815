-- Every table of a database. Times are UTC in ISO 8601. Rows of numbers lie beside the database, in the folder NAME.rows.

-- Data sets

CREATE TABLE datasets (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,                -- text or vectors
    source TEXT NOT NULL,              -- name of the file
    items INTEGER NOT NULL,
    features INTEGER NOT NULL,
    positives INTEGER NOT NULL,        -- items with this label
    negatives INTEGER NOT NULL,
    positive TEXT NOT NULL,            -- the word, or rule, that makes an item positive
    scaling TEXT NOT NULL,             -- JSON
    vectorizer TEXT,                   -- JSON: how texts become features; NULL: no texts
    documents INTEGER,                 -- texts that document frequencies were counted in
    feature_names TEXT,                -- JSON
    folder TEXT NOT NULL,              -- of its rows: 16 hexadecimal digits
    created_at TEXT NOT NULL,
    classes TEXT,                      -- JSON: name -> number of items; NULL: a positive and a negative class
    columns TEXT,                      -- JSON: the columns of the file that were read
    digested INTEGER NOT NULL DEFAULT 0, -- items whose digests are in `contents`
    checksums TEXT,                    -- JSON: file of rows -> CRC-32
    near_duplicates TEXT NOT NULL DEFAULT 'keep', -- or once
    owner TEXT NOT NULL DEFAULT '',    -- an e-mail address; '': visible to everybody
    digests TEXT NOT NULL DEFAULT '{}' -- JSON: table -> digest of the rows of this data set; see digests.py
) STRICT;

CREATE TABLE items (
    dataset INTEGER NOT NULL REFERENCES datasets ON DELETE CASCADE,
    position INTEGER NOT NULL,         -- from 0, in the order of the file
    id TEXT NOT NULL,
    text TEXT,
    label TEXT NOT NULL,               -- the word in the file
    y INTEGER NOT NULL,                -- -1, 1, or 1 to K; 0: no label
    PRIMARY KEY (dataset, position)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX items_id ON items (dataset, id);

CREATE TABLE later_labels (            -- labels that were appended after their items
    number INTEGER PRIMARY KEY,
    dataset INTEGER NOT NULL REFERENCES datasets ON DELETE CASCADE,
    item INTEGER NOT NULL,             -- position; its y in items is 0
    label TEXT NOT NULL,               -- the word in the file
    y INTEGER NOT NULL,                -- -1, 1, or 1 to K
    added_at TEXT NOT NULL,
    UNIQUE (dataset, item)
) STRICT;

CREATE TABLE details (                 -- other columns of the file
    dataset INTEGER NOT NULL REFERENCES datasets ON DELETE CASCADE,
    item INTEGER NOT NULL,             -- position
    cells TEXT NOT NULL,               -- JSON: a word for each column
    PRIMARY KEY (dataset, item)
) STRICT, WITHOUT ROWID;

CREATE TABLE vocabulary (
    dataset INTEGER NOT NULL REFERENCES datasets ON DELETE CASCADE,
    column INTEGER NOT NULL,
    term TEXT NOT NULL,
    document_frequency INTEGER NOT NULL,
    PRIMARY KEY (dataset, column)
) STRICT, WITHOUT ROWID;

CREATE TABLE contents (                -- digests of items, which find exact duplicates
    dataset INTEGER NOT NULL REFERENCES datasets ON DELETE CASCADE,
    digest BLOB NOT NULL,
    PRIMARY KEY (dataset, digest)
) STRICT, WITHOUT ROWID;

CREATE TABLE firsts (                  -- texts that are not near-duplicates of an earlier one
    dataset INTEGER NOT NULL REFERENCES datasets ON DELETE CASCADE,
    item INTEGER NOT NULL,             -- position
    size INTEGER NOT NULL,             -- different words
    bits BLOB NOT NULL,                -- of these words
    copies INTEGER NOT NULL,           -- near-duplicates that came later
    PRIMARY KEY (dataset, item)
) STRICT, WITHOUT ROWID;

CREATE TABLE beginnings (              -- words by which `firsts` are found
    dataset INTEGER NOT NULL REFERENCES datasets ON DELETE CASCADE,
    word INTEGER NOT NULL,
    item INTEGER NOT NULL,
    PRIMARY KEY (dataset, word, item)
) STRICT, WITHOUT ROWID;

CREATE TABLE batches (                 -- the import, and what was appended
    dataset INTEGER NOT NULL REFERENCES datasets ON DELETE CASCADE,
    first INTEGER NOT NULL,            -- position of its first item
    items INTEGER NOT NULL,
    words INTEGER NOT NULL,
    new_words INTEGER NOT NULL,        -- of these, words that the vocabulary lacks
    added_at TEXT NOT NULL,
    PRIMARY KEY (dataset, first)
) STRICT, WITHOUT ROWID;

-- Sessions

CREATE TABLE sessions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    dataset INTEGER NOT NULL REFERENCES datasets,
    algorithm TEXT NOT NULL,
    learner TEXT NOT NULL,
    rule TEXT NOT NULL,
    parameters TEXT NOT NULL,          -- JSON: of the learner and of the rule
    budget INTEGER NOT NULL CHECK (budget >= 0), -- labels at the start; `added` events add to it
    seed INTEGER NOT NULL,
    shuffled INTEGER NOT NULL,
    positive_name TEXT NOT NULL,
    negative_name TEXT NOT NULL,
    alpha_p REAL NOT NULL,             -- weights of the metric
    c_p REAL NOT NULL,
    metric TEXT NOT NULL,              -- sum or cost
    theta REAL NOT NULL,               -- threshold of the margin
    rho REAL NOT NULL,                 -- weight of positives; 0: estimated
    averaged INTEGER NOT NULL,
    engine TEXT NOT NULL,              -- version that made it
    created_at TEXT NOT NULL,
    classes TEXT,                      -- JSON: names in the order of y; NULL: a positive and a negative class
    positive_class TEXT,               -- one of the data set's classes against all others
    items INTEGER NOT NULL DEFAULT 0,  -- of the stream when it began: those that are shuffled
    horizon INTEGER NOT NULL DEFAULT 0, -- rounds that the budget is planned for
    audit REAL NOT NULL DEFAULT 0,     -- share of the budget for random checks
    audit_trains INTEGER NOT NULL DEFAULT 1,
    pace REAL,                         -- share of the horizon in which the budget is spent evenly; NULL: as the rule asks
    owner TEXT NOT NULL DEFAULT '',
    guidelines TEXT NOT NULL DEFAULT '',
    feedback_trains INTEGER NOT NULL DEFAULT 0,
    log_version INTEGER NOT NULL DEFAULT 0, -- how often its log was changed
    prior TEXT,                        -- JSON: seed words and items, or a model
    floor REAL NOT NULL DEFAULT 0,     -- share of the budget that gives every item a least chance
    overlap REAL NOT NULL DEFAULT 0,   -- share of the questions for several people
    lease REAL NOT NULL DEFAULT 300,   -- seconds until somebody else may have a question
    shown TEXT,                        -- JSON: columns shown with each item; NULL: those of the data set
    tags TEXT,                         -- JSON: names; NULL: none
    repeat REAL NOT NULL DEFAULT 0,    -- share of the questions asked again of the same person
    people INTEGER NOT NULL DEFAULT 2, -- who answer a question that overlaps
    quota INTEGER NOT NULL DEFAULT 0,  -- answers that one person may give; 0: no limit
    questions TEXT,                    -- JSON: name and guidelines of several questions about each item; NULL: one
    audited TEXT,                      -- JSON: the column of decisions that it audits, and its cut; NULL: none
    answer_each INTEGER NOT NULL DEFAULT 0, -- whether the card waits for an answer to each of several questions
    goal TEXT NOT NULL DEFAULT 'stream' -- 'stream': a model of what comes; 'find': the items of a file
) STRICT;

CREATE TABLE prior_weights (           -- with which the learner begins
    session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
    part INTEGER NOT NULL,             -- place of one of several questions, from 0
    column INTEGER NOT NULL,
    weight REAL NOT NULL,
    PRIMARY KEY (session, part, column)
) STRICT, WITHOUT ROWID;

CREATE TABLE questions (               -- stored before they are shown
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
    number INTEGER,                    -- from 1; NULL: prepared, and not asked
    parent INTEGER NOT NULL,           -- the question that it follows; 0 or negative: none
    branch INTEGER NOT NULL,           -- the answer to it
    round INTEGER NOT NULL,            -- of the stream, from 0
    item INTEGER NOT NULL,             -- position
    margin REAL NOT NULL,
    probability REAL NOT NULL,         -- with which the rule asked
    draw REAL NOT NULL,                -- below the probability: asked
    predicted INTEGER NOT NULL,
    asked_at TEXT NOT NULL,
    audit INTEGER NOT NULL DEFAULT 0,  -- whether it is a random check
    overlap INTEGER NOT NULL DEFAULT 0, -- whether two people answer it
    repeat INTEGER NOT NULL DEFAULT 0, -- whether one person is asked twice
    parts TEXT,                        -- JSON: margin and predicted class for each of several questions; NULL: one
    UNIQUE (session, parent, branch),
    UNIQUE (session, number)
) STRICT;

CREATE TABLE events (                  -- the log: rows are added, never changed
    session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
    number INTEGER NOT NULL,           -- from 1
    id TEXT UNIQUE,                    -- under which a page sent it; NULL: the session's own
    kind TEXT NOT NULL,                -- grown, asked, answered, corrected, undone, marked, known or added change
                                       -- the state;
                                       -- second, late and again are further answers, withdrawn takes one back;
                                       -- noted and tagged are what annotators leave
    at TEXT NOT NULL,
    annotator TEXT NOT NULL,           -- '': nobody by name
    question INTEGER REFERENCES questions ON DELETE CASCADE,
    item INTEGER,                      -- position
    label INTEGER,                     -- -1, 1, or 1 to K; 0: skipped
    seconds REAL,                      -- from showing the item to the answer
    data TEXT,                         -- JSON: what else belongs to the kind
    PRIMARY KEY (session, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX events_kind ON events (session, kind);
CREATE INDEX events_question ON events (question);

CREATE TABLE labels (                  -- made of events: the label of each question as it is now
    question INTEGER PRIMARY KEY REFERENCES questions ON DELETE CASCADE,
    given INTEGER NOT NULL,            -- number of the event that answered it
    label INTEGER NOT NULL,
    first INTEGER NOT NULL,            -- label before all corrections
    annotator TEXT NOT NULL,
    answered_at TEXT NOT NULL,
    seconds REAL,
    labels TEXT,                       -- JSON: for each of several questions; NULL: one
    firsts TEXT                        -- JSON: before all corrections
) STRICT;

CREATE TABLE opinions (                -- made of events: further answers that count now
    question INTEGER NOT NULL REFERENCES questions ON DELETE CASCADE,
    annotator TEXT NOT NULL,
    given INTEGER NOT NULL,            -- number of the event
    kind TEXT NOT NULL,                -- second, late or again
    label INTEGER NOT NULL,
    answered_at TEXT NOT NULL,
    seconds REAL,
    PRIMARY KEY (question, annotator)
) STRICT, WITHOUT ROWID;

CREATE TABLE digests (                 -- fingerprints of the state, which a replay must reproduce
    session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
    number INTEGER NOT NULL,           -- of the event before
    digest TEXT NOT NULL,
    PRIMARY KEY (session, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE leases (                  -- who has which question
    id INTEGER PRIMARY KEY,
    question INTEGER NOT NULL REFERENCES questions ON DELETE CASCADE,
    annotator TEXT NOT NULL,
    leased_at TEXT NOT NULL,
    ended_at TEXT                      -- NULL: now
) STRICT;
CREATE UNIQUE INDEX leases_now ON leases (question) WHERE ended_at IS NULL;
CREATE INDEX leases_of_question ON leases (question);

-- People

CREATE TABLE annotators (
    name TEXT PRIMARY KEY,
    preferences TEXT NOT NULL          -- JSON: keys, size of the text
) STRICT;

CREATE TABLE roles (
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
    mail TEXT NOT NULL,
    role TEXT NOT NULL CHECK (role IN ('owner', 'annotator', 'reader')),
    given_by TEXT NOT NULL,
    given_at TEXT NOT NULL,
    ended_by TEXT,
    ended_at TEXT                      -- NULL: now
) STRICT;
CREATE UNIQUE INDEX roles_mail ON roles (session, mail) WHERE ended_at IS NULL;
CREATE INDEX roles_session ON roles (session);

CREATE TABLE tokens (                  -- of programs that label over HTTP
    id INTEGER PRIMARY KEY,
    digest TEXT NOT NULL UNIQUE,       -- SHA-256 of the token
    session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
    role TEXT NOT NULL CHECK (role IN ('owner', 'annotator', 'reader')),
    annotator TEXT NOT NULL,
    created_at TEXT NOT NULL,
    expires_at TEXT NOT NULL           -- '': it has expired, whatever the clock says now
) STRICT;

CREATE TABLE removals (                -- removed sessions, until they are erased; then their names alone
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL,
    name TEXT NOT NULL,
    removed_by TEXT NOT NULL,
    removed_at TEXT NOT NULL,
    restored_by TEXT,
    restored_at TEXT,
    due_at TEXT                        -- when a start of the server found it old enough to be erased
) STRICT;
CREATE UNIQUE INDEX removals_session ON removals (session) WHERE restored_at IS NULL;

-- Comparisons

CREATE TABLE comparisons (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    specification TEXT NOT NULL,       -- JSON
    versions TEXT NOT NULL,            -- JSON: of the engine, Python, numpy, numba
    lines TEXT,                        -- JSON: results; NULL: none yet
    created_at TEXT NOT NULL,
    finished_at TEXT,
    datasets TEXT                      -- JSON: ids in the order of its data
) STRICT;

CREATE TABLE replays (
    comparison INTEGER NOT NULL REFERENCES comparisons ON DELETE CASCADE,
    job TEXT NOT NULL,                 -- key of the replay
    shape TEXT NOT NULL,               -- JSON
    counts BLOB NOT NULL,              -- 64-bit integers
    PRIMARY KEY (comparison, job)
) STRICT, WITHOUT ROWID;

CREATE TABLE jobs (                    -- the process that runs a comparison, or ran it last
    comparison INTEGER PRIMARY KEY REFERENCES comparisons ON DELETE CASCADE,
    pid INTEGER NOT NULL,
    started TEXT NOT NULL,
    state TEXT NOT NULL,
    known INTEGER,                     -- replays that were done before it began
    done INTEGER,
    total INTEGER,
    message TEXT,
    begun_at TEXT
) STRICT;
