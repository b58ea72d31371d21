-- Who has signed in to the pages. Of sessions that have ended rows are kept, so that no link signs in twice.
CREATE TABLE gpu_sessions (
    hash bytea PRIMARY KEY CONSTRAINT sha256 CHECK (octet_length(hash) = 32),
    -- The API key that it stands for, or the hash of the local token of `serve --dev`.
    key_id text REFERENCES gpu_keys (id) ON DELETE CASCADE,
    token bytea CONSTRAINT token_sha256 CHECK (octet_length(token) = 32),
    -- Of a link that signs in once.
    link bytea UNIQUE,
    ends_at timestamptz NOT NULL,
    ended_at timestamptz,
    CONSTRAINT one_credential CHECK ((key_id IS NULL) <> (token IS NULL))
);

CREATE INDEX gpu_sessions_ends_at ON gpu_sessions (ends_at);
