-- Everything that Apus asks of PostgreSQL: its tables, the settings of its connections, and its statements. The program
-- contains this file and executes it part by part; a line "--@ name" begins a part. {family} stands for each of the
-- seven tables of rows. Where the devices of a cluster are divided into parts, each further part has such tables and a
-- lane in a schema of its own: apus_1, apus_2 and so on, in this database or in one of its own.

--@ settings
-- Of every connection. The plans of prepared statements are made once, and on purpose without statistics: each statement
-- finds its rows by the primary key, however many there were when it was prepared.
SET search_path = pg_catalog;
SET default_transaction_isolation = 'read committed';
SET plan_cache_mode = force_generic_plan;
SET enable_seqscan = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_bitmapscan = off;
SET jit = off;
SET client_min_messages = warning;
SET idle_in_transaction_session_timeout = '10s';

--@ schema
CREATE SCHEMA IF NOT EXISTS {schema};
-- One row: which version of this file made the tables, and which database this is.
CREATE TABLE {schema}.service (
  version integer NOT NULL,
  id bytea NOT NULL,
  -- The last number given to a start of a service.
  incarnations bigint NOT NULL,
  -- Set when the rows were copied to another store: no service may use these any more.
  moved boolean NOT NULL,
  single boolean PRIMARY KEY DEFAULT true CHECK (single)
);
INSERT INTO {schema}.service (version, id, incarnations, moved)
  VALUES (1, decode(replace(gen_random_uuid()::text, '-', ''), 'hex'), 0, false);
-- One row for each connection that writes. Its first statement in each transaction must find this row as it left it.
CREATE TABLE {schema}.lane (
  id integer PRIMARY KEY,
  node text NOT NULL,
  incarnation bigint NOT NULL,
  -- Grows with each connection.
  session bigint NOT NULL,
  -- The number of the last group of writes.
  n bigint NOT NULL,
  fenced boolean NOT NULL
) WITH (fillfactor = 50);

--@ schema-cluster
-- Who uses the tables of a part, by the name of their schema. `counter` grows every second while the process lives.
CREATE TABLE apus.lease (
  node text PRIMARY KEY,
  incarnation bigint NOT NULL,
  counter bigint NOT NULL,
  released boolean NOT NULL
) WITH (fillfactor = 50);

--@ schema-2
-- Grows when an operator accepts a database that went back in time.
ALTER TABLE {schema}.service ADD COLUMN era bigint NOT NULL DEFAULT 0;
UPDATE {schema}.service SET version = 2;

--@ schema-2-cluster
-- What the nodes of a cluster share, whatever the parts of its devices.
-- The node that has a lease.
ALTER TABLE apus.lease ADD COLUMN holder text NOT NULL DEFAULT 'apus';
-- The nodes of a cluster. Only what `seen` and `state` say is for people alone; nothing is decided by a clock.
CREATE TABLE apus.node (
  name text PRIMARY KEY,
  -- Where clients reach it; '' if that was not said.
  address text NOT NULL,
  version text NOT NULL,
  state text NOT NULL,
  draining boolean NOT NULL,
  seen timestamptz,
  -- Where it accepts links from other nodes; '' if it does not.
  link text NOT NULL DEFAULT ''
) WITH (fillfactor = 50);
-- One row once there is a cluster. Whoever changes a shared file locks it, and gives the next version to what changed.
CREATE TABLE apus.directory (
  version bigint NOT NULL,
  -- Removals up to this version are not listed any more.
  forgotten bigint NOT NULL,
  -- Tells a cluster key from a wrong one.
  proof bytea NOT NULL,
  single boolean PRIMARY KEY DEFAULT true CHECK (single)
);
-- The files of the data directory that all nodes share. A file to which lines were appended has a row for each part,
-- which begins at the byte `start`. The content is encrypted with the cluster key, and null once the file was removed.
CREATE TABLE apus.file (
  path text NOT NULL,
  start bigint NOT NULL,
  version bigint NOT NULL,
  private boolean NOT NULL,
  content bytea,
  PRIMARY KEY (path, start)
);
CREATE INDEX ON apus.file (version, path, start);
-- Codes with which nodes join. `sealed` is the cluster key, encrypted with the code.
CREATE TABLE apus.invitation (
  id bytea PRIMARY KEY,
  sealed bytea NOT NULL,
  expires timestamptz NOT NULL
);

--@ schema-3
UPDATE {schema}.service SET version = 3;

--@ schema-3-cluster
-- The number of parts into which the devices were divided when the cluster was made.
ALTER TABLE apus.directory ADD COLUMN parts integer NOT NULL DEFAULT 1;

--@ table
-- Keys and values are the same bytes as in the embedded store. They are neither compressed nor moved out of line while
-- they fit in a page; room in each page lets an update stay in it, so that it changes no index.
CREATE TABLE {schema}.{family} (key bytea NOT NULL, value bytea NOT NULL, PRIMARY KEY (key))
  WITH (fillfactor = 75, toast_tuple_target = 8160, autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE {schema}.{family} ALTER COLUMN key SET STORAGE PLAIN;
ALTER TABLE {schema}.{family} ALTER COLUMN value SET STORAGE EXTERNAL;

--@ schema-exists
SELECT 1 FROM pg_class WHERE oid = to_regclass('{schema}.service');

--@ service
SELECT version, id, moved FROM {schema}.service;

--@ era
SELECT era FROM {schema}.service;

--@ era-raise
UPDATE {schema}.service SET era = greatest(era, $1::bigint) + 1 RETURNING era;

--@ schema-lock
-- One process at a time makes or changes the tables.
SELECT pg_advisory_xact_lock(4179340454);

--@ server
-- What the durability of a commit depends on.
SELECT pg_backend_pid(), current_setting('synchronous_commit'), current_setting('synchronous_standby_names'),
  current_setting('fsync'), current_setting('full_page_writes'), pg_is_in_recovery();

--@ lease
SELECT incarnation, counter, released, holder FROM apus.lease WHERE node = $1::text;

--@ leases
SELECT node, incarnation, counter, released, holder FROM apus.lease;

--@ connections
-- How many connections a process has. Their names begin with that of the process.
SELECT count(*) FROM pg_stat_activity
  WHERE application_name = $1::text OR starts_with(application_name, $1::text || '/');

--@ incarnation
UPDATE {schema}.service SET incarnations = incarnations + 1 RETURNING incarnations;

--@ claim
INSERT INTO apus.lease (node, incarnation, counter, released, holder) VALUES ($1::text, $2::bigint, 0, false, $5::text)
  ON CONFLICT (node) DO UPDATE SET incarnation = excluded.incarnation, counter = lease.counter + 1, released = false,
    holder = excluded.holder
  WHERE lease.incarnation = $3::bigint AND lease.counter = $4::bigint
  RETURNING 1;

--@ renew
UPDATE apus.lease SET counter = counter + 1 WHERE node = $1::text AND incarnation = $2::bigint RETURNING 1;

--@ release
UPDATE apus.lease SET released = true WHERE node = $1::text AND incarnation = $2::bigint RETURNING 1;

--@ lane
-- Takes a lane over from an earlier process, whose open transaction is waited for; later ones find another incarnation.
-- A process that was stopped after it took the lease does not take the lane back from its successor.
INSERT INTO {schema}.lane (id, node, incarnation, session, n, fenced) VALUES ($1::integer, $2::text, $3::bigint, 0, 0, false)
  ON CONFLICT (id) DO UPDATE SET node = excluded.node, incarnation = excluded.incarnation, session = 0, fenced = false
  WHERE lane.incarnation <= excluded.incarnation RETURNING n;

--@ disconnect
-- Ends the connections of a process that may be stopped in the middle of a transaction.
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
  WHERE (application_name = $1::text OR starts_with(application_name, $1::text || '/')) AND pid <> pg_backend_pid();

--@ session
-- After this no transaction of an earlier connection can commit, and `n` tells which did.
UPDATE {schema}.lane SET session = session + 1 WHERE id = $1::integer AND incarnation = $2::bigint AND NOT fenced
  RETURNING session, n;

--@ moved
UPDATE {schema}.service SET moved = $1::boolean RETURNING 1;

--@ holder
SELECT node, incarnation, n FROM {schema}.lane WHERE id = $1::integer;

--@ fence
-- The first statement of each group. If its row is not there the division fails, and the whole group with it.
WITH lane AS (
  UPDATE {schema}.lane SET n = $1::bigint
    WHERE id = $2::integer AND incarnation = $3::bigint AND session = $4::bigint AND n < $1::bigint AND NOT fenced
    RETURNING 1
) SELECT 1 / count(*) FROM lane;

--@ delete-range
DELETE FROM {schema}.{family} WHERE key >= $1::bytea AND key < $2::bytea;

--@ delete
DELETE FROM {schema}.{family} AS stored USING unnest($1::bytea[]) AS gone(key) WHERE stored.key = gone.key;

--@ put
INSERT INTO {schema}.{family} (key, value) SELECT * FROM unnest($1::bytea[], $2::bytea[])
  ON CONFLICT (key) DO UPDATE SET value = excluded.value;

--@ keys
SELECT key FROM {schema}.{family} WHERE key > $1::bytea ORDER BY key LIMIT $2::bigint;

--@ move
-- Moves rows to the tables of another part.
WITH moved AS (
  DELETE FROM {schema}.{family} AS stored USING unnest($1::bytea[]) AS gone(key) WHERE stored.key = gone.key
    RETURNING stored.key, stored.value
) INSERT INTO {target}.{family} (key, value) SELECT key, value FROM moved;

--@ channels-copy
-- Channels, and what they keep, for another part. What the first byte of keys means: `ChannelRecord`.
INSERT INTO {target}.channels (key, value) SELECT key, value FROM {schema}.channels WHERE key < '\x02'::bytea;

--@ broadcasts
-- What channels keep, by the beginning of each value: its order and its id.
SELECT key, substring(value FROM 1 FOR 25) FROM {schema}.channels
  WHERE key >= '\x01'::bytea AND key < '\x02'::bytea ORDER BY key;

--@ numbers
SELECT incarnations, era FROM {schema}.service;

--@ lanes
SELECT id, node, incarnation, session, n, fenced FROM {schema}.lane ORDER BY id;

--@ schema-drop
-- Before the rows of a part are copied into a database that had them earlier.
DROP SCHEMA {schema} CASCADE;

--@ numbers-put
-- Tables into which the rows of a part are copied are those of the part, and not to be used before the copy is complete.
UPDATE {schema}.service SET id = $1::bytea, incarnations = $2::bigint, era = $3::bigint, moved = true;

--@ lane-put
INSERT INTO {schema}.lane (id, node, incarnation, session, n, fenced)
  VALUES ($1::integer, $2::text, $3::bigint, $4::bigint, $5::bigint, $6::boolean);

--@ get
SELECT value FROM {schema}.{family} WHERE key = $1::bytea;

--@ scan
SELECT key, value FROM {schema}.{family} WHERE key >= $1::bytea AND key < $2::bytea ORDER BY key LIMIT $3::bigint;

--@ scan-to-end
SELECT key, value FROM {schema}.{family} WHERE key >= $1::bytea ORDER BY key LIMIT $2::bigint;

--@ mailboxes
-- The notifications of many devices at once. Without LATERAL this would read the whole table.
SELECT device.place, stored.key, stored.value
  FROM unnest($1::bytea[], $2::bytea[]) WITH ORDINALITY AS device(first, last, place),
    LATERAL (
      SELECT key, value FROM {schema}.mailbox WHERE key >= device.first AND key <= device.last ORDER BY key
    ) AS stored
  ORDER BY device.place, stored.key;

--@ expired
-- The keys of the expired notifications in the next part of the table, and last the key of the last row of that part.
-- Byte 1 of a value is its version, and bytes 10 to 17 are its expiration.
WITH part AS (
  SELECT key,
      octet_length(value) > 17 AND substring(value FROM 1 FOR 1) <= $4::bytea
        AND substring(value FROM 10 FOR 8) < $2::bytea AS expired
    FROM {schema}.mailbox WHERE key > $1::bytea ORDER BY key LIMIT $3::bigint
)
SELECT key FROM part WHERE expired
UNION ALL (SELECT key FROM part ORDER BY key DESC LIMIT 1);

--@ node-add
INSERT INTO apus.node (name, address, version, state, draining, seen)
  VALUES ($1::text, $2::text, $3::text, 'stopped', false, NULL) ON CONFLICT (name) DO NOTHING RETURNING 1;

--@ node-remove
DELETE FROM apus.node WHERE name = $1::text RETURNING 1;

--@ node-drain
UPDATE apus.node SET draining = $2::boolean WHERE name = $1::text RETURNING 1;

--@ node-sign
-- A sign of life. Finds out what is asked of the node, and whether shared files changed.
UPDATE apus.node SET state = $2::text, version = $3::text, link = $4::text, seen = clock_timestamp() WHERE name = $1::text
  RETURNING draining, (SELECT version FROM apus.directory), (SELECT era FROM apus.service),
    (SELECT n FROM apus.lane WHERE id = 0),
    (SELECT count(*) FROM apus.node AS other WHERE other.name <> $1::text AND other.state = 'standby' AND NOT other.draining
      AND other.seen > clock_timestamp() - interval '3 seconds'),
    (SELECT string_agg(other.name, ' ') FROM apus.node AS other),
    (SELECT parts FROM apus.directory),
    (SELECT string_agg(lease.node || ' ' || other.name || ' ' || other.link, E'\n')
      FROM apus.lease JOIN apus.node AS other ON other.name = lease.holder WHERE NOT lease.released);

--@ nodes-exist
SELECT 1 WHERE to_regclass('apus.node') IS NOT NULL;

--@ nodes
SELECT name, address, version, state, draining,
    coalesce((1000 * extract(epoch FROM clock_timestamp() - seen))::bigint, -1),
    (SELECT lease.node FROM apus.lease WHERE lease.holder = name AND NOT lease.released ORDER BY lease.node LIMIT 1)
  FROM apus.node ORDER BY name;

--@ directory-make
INSERT INTO apus.directory (version, forgotten, proof, parts) VALUES (0, 0, $1::bytea, $2::integer)
  ON CONFLICT (single) DO NOTHING RETURNING 1;

--@ directory
SELECT version, forgotten, proof, parts FROM apus.directory;

--@ directory-lock
-- Keeps everybody else from changing shared files until this transaction ends.
SELECT version, forgotten, proof, parts FROM apus.directory FOR UPDATE;

--@ lease-held
-- If only other nodes have leases the division fails, and the whole transaction with it. If not, nobody takes over from
-- this one until the transaction ends.
WITH held AS (SELECT 1 FROM apus.lease WHERE holder = $1::text FOR SHARE)
SELECT 1 / CASE WHEN EXISTS (SELECT 1 FROM held) OR NOT EXISTS (SELECT 1 FROM apus.lease) THEN 1 ELSE 0 END;

--@ leases-lock
-- Nobody takes a lease until this transaction ends.
LOCK TABLE apus.lease IN SHARE MODE;

--@ directory-divide
UPDATE apus.directory SET parts = $1::integer RETURNING 1;

--@ directory-raise
UPDATE apus.directory SET version = $1::bigint, forgotten = greatest(forgotten, $2::bigint) WHERE version < $1::bigint
  RETURNING 1;

--@ files-changed
SELECT path, start, version, private, content FROM apus.file
  WHERE (version, path, start) > ($1::bigint, $2::text, $3::bigint) ORDER BY version, path, start LIMIT $4::bigint;

--@ files-in-parts
SELECT DISTINCT path FROM apus.file WHERE start > 0;

--@ file-parts
SELECT path, start, version, private, content FROM apus.file WHERE path = $1::text ORDER BY start;

--@ file-sizes
-- The bytes of each part's content, without what the encryption adds.
SELECT start, octet_length(content) FROM apus.file WHERE path = $1::text ORDER BY start;

--@ file-cut
-- A file that is replaced has only its first part.
DELETE FROM apus.file WHERE path = $1::text AND start > 0;

--@ file-put
INSERT INTO apus.file (path, start, version, private, content)
  VALUES ($1::text, $2::bigint, $3::bigint, $4::boolean, $5::bytea)
  ON CONFLICT (path, start) DO UPDATE SET version = excluded.version, private = excluded.private,
    content = excluded.content;

--@ file-remove
UPDATE apus.file SET version = $2::bigint, content = NULL WHERE path = $1::text AND start = 0;

--@ files-forget
DELETE FROM apus.file WHERE content IS NULL AND version <= $1::bigint;

--@ invitation-add
INSERT INTO apus.invitation (id, sealed, expires)
  VALUES ($1::bytea, $2::bytea, clock_timestamp() + $3::bigint * interval '1 second');

--@ invitation
SELECT sealed FROM apus.invitation WHERE id = $1::bytea AND expires > clock_timestamp();

--@ invitation-take
DELETE FROM apus.invitation WHERE id = $1::bytea AND expires > clock_timestamp() RETURNING 1;

--@ invitations-expire
DELETE FROM apus.invitation WHERE expires <= clock_timestamp();
