#ifndef APUS_ENGINE_LOG_H
#define APUS_ENGINE_LOG_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// A message of the engine: not terminated, and valid until the call returns. Called on any thread.
typedef void (*apus_engine_message)(void *context, const char *text, size_t length);
/// The last call with that context.
typedef void (*apus_engine_release)(void *context);

/// Makes RocksDB pass its own messages, warnings and worse, to `message` instead of writing them to a file.
///
/// `options` is a `rocksdb_options_t`. The C interface of RocksDB 7.8 accepts a logger but cannot create one.
void apus_engine_set_log(
    void *options, apus_engine_message message, apus_engine_release release, void *context);

// The following take a `rocksdb_options_t`, and set what the C interface of RocksDB 7.8 has no functions for.

/// The engine does not write a file with its options when it opens a database. Nothing reads that file here, and to
/// write it, read it and compare it took a quarter of an opening's time.
void apus_engine_leave_out_options_file(void *options);
/// The engine records in its MANIFEST, when it begins a new log, which logs were synced and their sizes, and refuses to
/// open if one of them is missing or shorter.
void apus_engine_track_logs(void *options);
/// A table is rewritten so many seconds after it was written, if nothing else caused it; 0: never.
void apus_engine_set_rewrite_seconds(void *options, uint64_t seconds);
/// A table is dropped so many seconds after it was written; 0: never.
void apus_engine_set_ttl(void *options, uint64_t seconds);

/// Makes the database at `path`, which must not be open, forget the table with that number, whose file is missing or
/// unreadable. The content of the table is lost; everything else is kept.
///
/// Returns null on success, or an error message, which the caller frees.
char *apus_engine_forget_table(const char *path, uint64_t number);

#ifdef __cplusplus
}
#endif

#endif
