#!/bin/sh
# Makes the data directories of three nodes, unless they exist: setup.sh FOLDER NAME
#
# FOLDER has a directory for each node; NAME is that of the service, which its certificate has. APUS_STORE is the
# database's address.
set -eu

folder=$1 name=$2
store=$APUS_STORE
unset APUS_STORE

if [ ! -e "$folder/a/directory.conf" ]; then
  apus init --data "$folder/a" --name "$name" --name localhost --topic com.example.app
fi
if [ ! -e "$folder/a/cluster/member" ]; then
  apus cluster init a --data "$folder/a" --store "$store" --address a
fi
for node in b c; do
  if [ -e "$folder/$node/cluster/member" ]; then continue; fi
  code=$(apus cluster invite --data "$folder/a" --json | sed -n 's/.*"code":"\([^"]*\)".*/\1/p')
  apus cluster join "$node" --data "$folder/$node" --store "$store" --address "$node" --code "$code"
done
# The user of the nodes' containers.
if [ "$(id -u)" = 0 ]; then chown -R 10001:10001 "$folder/a" "$folder/b" "$folder/c"; fi
