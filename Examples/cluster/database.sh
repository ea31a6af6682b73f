#!/bin/sh
# The image of PostgreSQL runs this once, when it has made the primary.
set -eu

psql --username postgres --set ON_ERROR_STOP=1 --set password="$POSTGRES_PASSWORD" <<'SQL'
CREATE ROLE apus LOGIN PASSWORD :'password';
CREATE DATABASE apus OWNER apus;
-- Each write is on one of the others before it is acknowledged, whichever of them is the primary. With one standby, its
-- loss stops all writes: a real service has two.
ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (db1, db2)';
SQL
echo 'host replication postgres all scram-sha-256' >>"$PGDATA/pg_hba.conf"
