#ifndef APUS_ENGINE_LOG_H
#define APUS_ENGINE_LOG_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// A message of the engine: not terminated, and good until the call returns. Called on any thread.
typedef void (*apus_engine_message)(void *context, const char *text, size_t length);
/// The last call with that context.
typedef void (*apus_engine_release)(void *context);

/// Has RocksDB give its own messages, warnings and worse, to `message` and not write them to a file.
///
/// `options` is a `rocksdb_options_t`. Version 7.8 of RocksDB's C interface can take a logger and cannot make one.
void apus_engine_set_log(
    void *options, apus_engine_message message, apus_engine_release release, void *context);

/// Has the database at `path`, which must not be open, forget the table of that number: its file is missing, or cannot
/// be read. What was in the table is lost, and everything else stays.
///
/// Returns nothing, or what went wrong, which the caller frees.
char *apus_engine_forget_table(const char *path, uint64_t number);

#ifdef __cplusplus
}
#endif

#endif
