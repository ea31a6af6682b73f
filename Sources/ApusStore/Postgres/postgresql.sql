-- Everything that Apus asks of PostgreSQL: its tables, the settings of its connections, and its statements. The program
-- contains this file and executes it part by part; a line "--@ name" begins a part. {family} stands for each of the
-- seven tables of rows.

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
CREATE SCHEMA IF NOT EXISTS apus;
-- One row: which version of this file made the tables, and which database this is.
CREATE TABLE apus.service (
  version integer NOT NULL,
  id bytea NOT NULL,
  -- The last number given to a start of a service.
  incarnations bigint NOT NULL,
  -- Set when the rows were copied to another store: no service may use these any more.
  moved boolean NOT NULL,
  single boolean PRIMARY KEY DEFAULT true CHECK (single)
);
INSERT INTO apus.service (version, id, incarnations, moved)
  VALUES (1, decode(replace(gen_random_uuid()::text, '-', ''), 'hex'), 0, false);
-- Who uses the tables. `counter` grows every second while the process lives.
CREATE TABLE apus.lease (
  node text PRIMARY KEY,
  incarnation bigint NOT NULL,
  counter bigint NOT NULL,
  released boolean NOT NULL
) WITH (fillfactor = 50);
-- One row for each connection that writes. Its first statement in each transaction must find this row as it left it.
CREATE TABLE apus.lane (
  id integer PRIMARY KEY,
  node text NOT NULL,
  incarnation bigint NOT NULL,
  -- Grows with each connection.
  session bigint NOT NULL,
  -- The number of the last group of writes.
  n bigint NOT NULL,
  fenced boolean NOT NULL
) WITH (fillfactor = 50);

--@ table
-- Keys and values are the same bytes as in the embedded store. They are neither compressed nor moved out of line while
-- they fit in a page; room in each page lets an update stay in it, so that it changes no index.
CREATE TABLE apus.{family} (key bytea NOT NULL, value bytea NOT NULL, PRIMARY KEY (key))
  WITH (fillfactor = 75, toast_tuple_target = 8160, autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE apus.{family} ALTER COLUMN key SET STORAGE PLAIN;
ALTER TABLE apus.{family} ALTER COLUMN value SET STORAGE EXTERNAL;

--@ schema-exists
SELECT 1 FROM pg_class WHERE oid = to_regclass('apus.service');

--@ service
SELECT version, id, moved FROM apus.service;

--@ schema-lock
-- One process at a time makes or changes the tables.
SELECT pg_advisory_xact_lock(4179340454);

--@ server
-- What the durability of a commit depends on.
SELECT pg_backend_pid(), current_setting('synchronous_commit'), current_setting('synchronous_standby_names'),
  current_setting('fsync'), current_setting('full_page_writes'), pg_is_in_recovery();

--@ lease
SELECT incarnation, counter, released FROM apus.lease WHERE node = $1::text;

--@ connections
-- How many connections a process has. Their names begin with that of the process.
SELECT count(*) FROM pg_stat_activity
  WHERE application_name = $1::text OR starts_with(application_name, $1::text || '/');

--@ incarnation
UPDATE apus.service SET incarnations = incarnations + 1 RETURNING incarnations;

--@ claim
INSERT INTO apus.lease (node, incarnation, counter, released) VALUES ($1::text, $2::bigint, 0, false)
  ON CONFLICT (node) DO UPDATE SET incarnation = excluded.incarnation, counter = lease.counter + 1, released = false
  WHERE lease.incarnation = $3::bigint AND lease.counter = $4::bigint
  RETURNING 1;

--@ renew
UPDATE apus.lease SET counter = counter + 1 WHERE node = $1::text AND incarnation = $2::bigint RETURNING 1;

--@ release
UPDATE apus.lease SET released = true WHERE node = $1::text AND incarnation = $2::bigint RETURNING 1;

--@ lane
-- Takes a lane over from an earlier process, whose open transaction is waited for; later ones find another incarnation.
INSERT INTO apus.lane (id, node, incarnation, session, n, fenced) VALUES ($1::integer, $2::text, $3::bigint, 0, 0, false)
  ON CONFLICT (id) DO UPDATE SET node = excluded.node, incarnation = excluded.incarnation, session = 0, fenced = false
  RETURNING n;

--@ disconnect
-- Ends the connections of a process that may be stopped in the middle of a transaction.
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
  WHERE (application_name = $1::text OR starts_with(application_name, $1::text || '/')) AND pid <> pg_backend_pid();

--@ session
-- After this no transaction of an earlier connection can commit, and `n` tells which did.
UPDATE apus.lane SET session = session + 1 WHERE id = $1::integer AND incarnation = $2::bigint AND NOT fenced
  RETURNING session, n;

--@ moved
UPDATE apus.service SET moved = true RETURNING 1;

--@ holder
SELECT node, incarnation FROM apus.lane WHERE id = $1::integer;

--@ fence
-- The first statement of each group. If its row is not there the division fails, and the whole group with it.
WITH lane AS (
  UPDATE apus.lane SET n = $1::bigint
    WHERE id = $2::integer AND incarnation = $3::bigint AND session = $4::bigint AND n < $1::bigint AND NOT fenced
    RETURNING 1
) SELECT 1 / count(*) FROM lane;

--@ delete-range
DELETE FROM apus.{family} WHERE key >= $1::bytea AND key < $2::bytea;

--@ delete
DELETE FROM apus.{family} AS stored USING unnest($1::bytea[]) AS gone(key) WHERE stored.key = gone.key;

--@ put
INSERT INTO apus.{family} (key, value) SELECT * FROM unnest($1::bytea[], $2::bytea[])
  ON CONFLICT (key) DO UPDATE SET value = excluded.value;

--@ get
SELECT value FROM apus.{family} WHERE key = $1::bytea;

--@ scan
SELECT key, value FROM apus.{family} WHERE key >= $1::bytea AND key < $2::bytea ORDER BY key LIMIT $3::bigint;

--@ scan-to-end
SELECT key, value FROM apus.{family} WHERE key >= $1::bytea ORDER BY key LIMIT $2::bigint;

--@ mailboxes
-- The notifications of many devices at once. Without LATERAL this would read the whole table.
SELECT device.place, stored.key, stored.value
  FROM unnest($1::bytea[], $2::bytea[]) WITH ORDINALITY AS device(first, last, place),
    LATERAL (
      SELECT key, value FROM apus.mailbox WHERE key >= device.first AND key <= device.last ORDER BY key
    ) AS stored
  ORDER BY device.place, stored.key;

--@ expired
-- The keys of the expired notifications in the next part of the table, and last the key of the last row of that part.
-- Byte 1 of a value is its version, and bytes 10 to 17 are its expiration.
WITH part AS (
  SELECT key,
      octet_length(value) > 17 AND substring(value FROM 1 FOR 1) <= $4::bytea
        AND substring(value FROM 10 FOR 8) < $2::bytea AS expired
    FROM apus.mailbox WHERE key > $1::bytea ORDER BY key LIMIT $3::bigint
)
SELECT key FROM part WHERE expired
UNION ALL (SELECT key FROM part ORDER BY key DESC LIMIT 1);
