#include "CEngineLog.h"

#include <rocksdb/c.h>
#include <rocksdb/env.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>

// RocksDB's c.cc defines this type like this; its header only declares it.
struct rocksdb_logger_t {
  std::shared_ptr<rocksdb::Logger> rep;
};

namespace {

class ForwardingLogger final : public rocksdb::Logger {
 public:
  ForwardingLogger(apus_engine_message message, apus_engine_release release, void *context)
      : Logger(rocksdb::InfoLogLevel::WARN_LEVEL),
        message_(message), release_(release), context_(context) {}

  ~ForwardingLogger() override { release_(context_); }

  // Versions and options, logged at each opening: useless to an operator.
  void LogHeader(const char *, va_list) override {}

  void Logv(const char *format, va_list arguments) override {
    Logv(rocksdb::InfoLogLevel::INFO_LEVEL, format, arguments);
  }

  void Logv(const rocksdb::InfoLogLevel level, const char *format, va_list arguments) override {
    if (level < GetInfoLogLevel() || level >= rocksdb::InfoLogLevel::HEADER_LEVEL) return;
    // What `apus_engine_leave_out_options_file` asks for.
    if (strstr(format, "persist options") != nullptr) return;
    char text[1024];
    const int length = vsnprintf(text, sizeof text, format, arguments);
    if (length > 0) {
      message_(context_, text, std::min(static_cast<size_t>(length), sizeof text - 1));
    }
  }

 protected:
  rocksdb::Status CloseImpl() override { return rocksdb::Status::OK(); }

 private:
  const apus_engine_message message_;
  const apus_engine_release release_;
  void *const context_;
};

}  // namespace

void apus_engine_set_log(
    void *options, apus_engine_message message, apus_engine_release release, void *context) {
  rocksdb_logger_t logger{std::make_shared<ForwardingLogger>(message, release, context)};
  rocksdb_options_set_info_log(static_cast<rocksdb_options_t *>(options), &logger);
}
