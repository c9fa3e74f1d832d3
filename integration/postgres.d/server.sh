#!/bin/sh
# A PostgreSQL server of its own for one session of psql: server.sh DIRECTORY QUERIES.sql
# Started by root, runs as the user postgres. Prints what psql prints; the server's log goes to stderr.
set -eu
directory=$1
queries=$2
programs=$(dirname "$(ls /usr/lib/postgresql/*/bin/postgres | sort -V | tail -n 1)")
as() { runuser -u postgres -- "$@"; }

rm -rf "$directory"
mkdir "$directory"
chown postgres "$directory"
cd "$directory"
as "$programs/initdb" --no-sync -A trust --no-instructions -D "$directory/data" >&2
cat >>"$directory/data/postgresql.conf" <<EOF
listen_addresses = ''
unix_socket_directories = '$directory'
fsync = off
shared_buffers = 64MB
max_worker_processes = 16
max_parallel_workers = 16
EOF
as "$programs/pg_ctl" -w -D "$directory/data" -l "$directory/log" start >&2
status=0
as psql -X -q -v ON_ERROR_STOP=1 -h "$directory" -d postgres -f "$queries" || status=$?
as "$programs/pg_ctl" -w -m fast -D "$directory/data" stop >&2 || status=9
# What a worker of the server said or died of.
grep -E 'ERROR|FATAL|PANIC|signal|shmguard' "$directory/log" >&2 || true
rm -rf "$directory"
exit $status
