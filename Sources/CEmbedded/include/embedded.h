// Files of this repository that the programs contain.
#pragma once

#include <stddef.h>

typedef struct {
  /// Without a folder.
  const char *name;
  const unsigned char *bytes;
  size_t length;
} embedded_file;

/// The files of Sources/ApusConsole/Assets.
extern const embedded_file *const embedded_console;
extern const size_t embedded_console_count;

/// Sources/ApusAdmin/openapi.json and Sources/ApusDev/API/openapi.json.
extern const embedded_file embedded_admin_api;
extern const embedded_file embedded_dev_api;

/// Sources/ApusStore/Postgres/postgresql.sql.
extern const embedded_file embedded_postgresql;
