#include "CEngineLog.h"

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>
#include <rocksdb/options.h>

#include <memory>
#include <string>

// RocksDB's c.cc defines this type like this; its header only declares it.
struct rocksdb_options_t {
  rocksdb::Options rep;
};

namespace {

rocksdb::Options &of(void *options) { return static_cast<rocksdb_options_t *>(options)->rep; }

/// The engine's file system, in which the file with its options cannot be created.
class WithoutOptionsFile final : public rocksdb::FileSystemWrapper {
 public:
  using FileSystemWrapper::FileSystemWrapper;

  const char *Name() const override { return "apus"; }

  rocksdb::IOStatus NewWritableFile(
      const std::string &path, const rocksdb::FileOptions &options,
      std::unique_ptr<rocksdb::FSWritableFile> *file, rocksdb::IODebugContext *debug) override {
    const size_t slash = path.rfind('/');
    const size_t name = slash == std::string::npos ? 0 : slash + 1;
    if (path.compare(name, 8, "OPTIONS-") == 0) return rocksdb::IOStatus::NotSupported();
    return target()->NewWritableFile(path, options, file, debug);
  }
};

}  // namespace

void apus_engine_leave_out_options_file(void *options) {
  // Never freed: the engine's threads may use it until the process ends.
  static rocksdb::Env *const env =
      rocksdb::NewCompositeEnv(
          std::make_shared<WithoutOptionsFile>(rocksdb::FileSystem::Default())).release();
  of(options).env = env;
}

void apus_engine_track_logs(void *options) { of(options).track_and_verify_wals_in_manifest = true; }

void apus_engine_set_rewrite_seconds(void *options, uint64_t seconds) {
  of(options).periodic_compaction_seconds = seconds;
}

void apus_engine_set_ttl(void *options, uint64_t seconds) { of(options).ttl = seconds; }
