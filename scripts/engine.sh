#!/usr/bin/env bash
# Prints the option of `swift build` with which optimised programs contain RocksDB, where the system has it as an
# archive; nothing where it has not. Else the dynamic linker finds its 20,000 symbols anew at each start of a program,
# which takes a fifth of a service's start.
#
#   scripts/engine.sh FOLDER    an existing folder, for what the build reads
set -euo pipefail

folder=$(cd "$1" && pwd)/engine
libraries=$(pkg-config --variable=libdir rocksdb 2>/dev/null) || exit 0
archive=$libraries/librocksdb.a
[ -f "$archive" ] || exit 0
mkdir -p "$folder"
# The linker takes the archive, because it is the only librocksdb in the first folder that it searches.
ln -sf "$archive" "$folder/librocksdb.a"
cat >"$folder/rocksdb.pc" <<PC
Name: rocksdb
Description: RocksDB and what it compresses with
Version: $(pkg-config --modversion rocksdb)
Cflags: $(pkg-config --cflags rocksdb)
Libs: -L$folder -lrocksdb -L$libraries -lsnappy -lz -lbz2 -llz4 -lzstd
PC
echo "--pkg-config-path $folder"
