#include "CEngineLog.h"

#include <rocksdb/ldb_tool.h>
#include <rocksdb/options.h>
#include <rocksdb/utilities/ldb_cmd.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

// The same as the program `ldb` does: the C interface has no such call.
char *apus_engine_forget_table(const char *path, uint64_t number) {
  const std::vector<std::string> arguments{
      std::string("--db=") + path, "unsafe_remove_sst_file", std::to_string(number)};
  const std::unique_ptr<rocksdb::LDBCommand> command(rocksdb::LDBCommand::InitFromCmdLineArgs(
      arguments, rocksdb::Options(), rocksdb::LDBOptions(), nullptr));
  if (!command) return strdup("the engine has no command for removing a table");
  command->Run();
  rocksdb::LDBCommandExecuteResult result = command->GetExecuteState();
  return result.IsSucceed() ? nullptr : strdup(result.ToString().c_str());
}
