#!/bin/sh
# Makes the standby from the primary, once, and starts it.
set -eu

if [ ! -e "$PGDATA/PG_VERSION" ]; then
  pg_basebackup --pgdata="$PGDATA" --write-recovery-conf --checkpoint=fast \
    --dbname='host=db1 user=postgres application_name=db2'
  chown -R postgres: "$PGDATA"
  chmod 700 "$PGDATA"
fi
exec docker-entrypoint.sh postgres
