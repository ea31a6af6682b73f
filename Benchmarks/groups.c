// Writes groups of rows through libpq alone: what a store in PostgreSQL is measured against. The rows are as large as
// those of stored notifications, and each group is one statement with two binary arrays, in pipeline mode; the next
// group is made while the server works on the last one.
//
//   groups ADDRESS DEVICES FIRST ROWS GROUP VALUE-BYTES

#include <postgresql/libpq-fe.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { KEY_BYTES = 13, BYTEA = 17 };

static void die(const char *what, PGconn *connection) {
  fprintf(stderr, "groups: %s: %s", what, PQerrorMessage(connection));
  exit(1);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec / 1e9;
}

// An id that spreads over the whole table, as those of devices do.
static uint64_t id_of(uint64_t number) {
  number += 0x9e3779b97f4a7c15u;
  number = (number ^ number >> 30) * 0xbf58476d1ce4e5b9u;
  number = (number ^ number >> 27) * 0x94d049bb133111ebu;
  return number ^ number >> 31;
}

static int by_value(const void *left, const void *right) {
  uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
  return a < b ? -1 : a > b;
}

static char *put32(char *output, uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) *output++ = (char)(value >> shift);
  return output;
}

static char *header(char *output, uint32_t count) {
  output = put32(output, 1);
  output = put32(output, 0);
  output = put32(output, BYTEA);
  output = put32(output, count);
  return put32(output, 1);
}

static void finish(PGconn *connection) {
  for (;;) {
    PGresult *result = PQgetResult(connection);
    if (result == NULL) continue;
    ExecStatusType status = PQresultStatus(result);
    PQclear(result);
    if (status == PGRES_PIPELINE_SYNC) return;
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) die("a group failed", connection);
  }
}

int main(int count, char **arguments) {
  if (count != 7) {
    fprintf(stderr, "groups ADDRESS DEVICES FIRST ROWS GROUP VALUE-BYTES\n");
    return 2;
  }
  uint64_t devices = strtoull(arguments[2], NULL, 10), first = strtoull(arguments[3], NULL, 10);
  uint64_t rows = strtoull(arguments[4], NULL, 10), group = strtoull(arguments[5], NULL, 10);
  uint32_t bytes = (uint32_t)strtoul(arguments[6], NULL, 10);

  PGconn *connection = PQconnectdb(arguments[1]);
  if (PQstatus(connection) != CONNECTION_OK) die("connecting", connection);
  PQclear(PQexec(connection, "SET plan_cache_mode = force_generic_plan"));
  PQclear(PQexec(connection, "SET client_min_messages = warning"));
  PQclear(PQexec(
      connection, "CREATE TABLE IF NOT EXISTS mailbox (key bytea PRIMARY KEY, value bytea NOT NULL) "
                  "WITH (fillfactor = 75, toast_tuple_target = 8160)"));
  PQclear(PQexec(connection, "ALTER TABLE mailbox ALTER value SET STORAGE EXTERNAL"));
  PQclear(PQprepare(
      connection, "put", "INSERT INTO mailbox SELECT * FROM unnest($1::bytea[], $2::bytea[]) "
                         "ON CONFLICT (key) DO UPDATE SET value = excluded.value", 0, NULL));
  if (!PQenterPipelineMode(connection)) die("entering pipeline mode", connection);

  uint64_t *ids = malloc(group * sizeof *ids);
  char *keys = malloc(20 + group * (4 + KEY_BYTES)), *values = malloc(20 + group * (4 + bytes));
  double start = now();
  int is_open = 0;
  for (uint64_t done = 0; done < rows; done += group) {
    uint64_t size = rows - done < group ? rows - done : group;
    for (uint64_t index = 0; index < size; index++) ids[index] = id_of((first + done + index) % devices);
    qsort(ids, size, sizeof *ids, by_value);
    char *key = header(keys, (uint32_t)size), *value = header(values, (uint32_t)size);
    for (uint64_t index = 0; index < size; index++) {
      key = put32(key, KEY_BYTES);
      key = put32(key, (uint32_t)(ids[index] >> 32));
      key = put32(key, (uint32_t)ids[index]);
      memset(key, 0, KEY_BYTES - 8);
      key += KEY_BYTES - 8;
      value = put32(value, bytes);
      memset(value, 'x', bytes);
      memcpy(value, &done, sizeof done);
      value += bytes;
    }
    if (is_open) finish(connection);
    const char *parameters[] = {keys, values};
    int lengths[] = {(int)(key - keys), (int)(value - values)}, formats[] = {1, 1};
    if (!PQsendQueryPrepared(connection, "put", 2, parameters, lengths, formats, 1)) die("sending", connection);
    if (!PQpipelineSync(connection)) die("ending a group", connection);
    is_open = 1;
  }
  if (is_open) finish(connection);
  printf("{\"rows\": %llu, \"seconds\": %.6f}\n", (unsigned long long)rows, now() - start);
  return 0;
}
