#include "CPostgres.h"

#include <dlfcn.h>

static struct {
  PGconn *(*connectdbParams)(const char *const *, const char *const *, int);
  ConnStatusType (*status)(const PGconn *);
  void (*finish)(PGconn *);
  int (*socket)(const PGconn *);
  int (*backendPID)(const PGconn *);
  int (*serverVersion)(const PGconn *);
  char *(*errorMessage)(const PGconn *);
  int (*setnonblocking)(PGconn *, int);
  PQnoticeReceiver (*setNoticeReceiver)(PGconn *, PQnoticeReceiver, void *);
  int (*enterPipelineMode)(PGconn *);
  int (*pipelineSync)(PGconn *);
  int (*sendPrepare)(PGconn *, const char *, const char *, int, const Oid *);
  int (*sendQueryParams)(
      PGconn *, const char *, int, const Oid *, const char *const *, const int *, const int *, int);
  int (*sendQueryPrepared)(
      PGconn *, const char *, int, const char *const *, const int *, const int *, int);
  int (*flush)(PGconn *);
  int (*consumeInput)(PGconn *);
  int (*isBusy)(PGconn *);
  PGresult *(*getResult)(PGconn *);
  ExecStatusType (*resultStatus)(const PGresult *);
  char *(*resultErrorField)(const PGresult *, int);
  char *(*resultErrorMessage)(const PGresult *);
  int (*ntuples)(const PGresult *);
  char *(*getvalue)(const PGresult *, int, int);
  int (*getlength)(const PGresult *, int, int);
  int (*getisnull)(const PGresult *, int, int);
  void (*clear)(PGresult *);
  PQconninfoOption *(*conninfoParse)(const char *, char **);
  void (*conninfoFree)(PQconninfoOption *);
  void (*freemem)(void *);
} pq;

const char *cpq_load(void) {
  // The name of its interface since PostgreSQL 8.2. It stays loaded.
  void *library = dlopen("libpq.so.5", RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) return dlerror();
#define LOAD(name) \
  if ((*(void **)&pq.name = dlsym(library, "PQ" #name)) == NULL) return dlerror()
  LOAD(connectdbParams);
  LOAD(status);
  LOAD(finish);
  LOAD(socket);
  LOAD(backendPID);
  LOAD(serverVersion);
  LOAD(errorMessage);
  LOAD(setnonblocking);
  LOAD(setNoticeReceiver);
  LOAD(enterPipelineMode);
  LOAD(pipelineSync);
  LOAD(sendPrepare);
  LOAD(sendQueryParams);
  LOAD(sendQueryPrepared);
  LOAD(flush);
  LOAD(consumeInput);
  LOAD(isBusy);
  LOAD(getResult);
  LOAD(resultStatus);
  LOAD(resultErrorField);
  LOAD(resultErrorMessage);
  LOAD(ntuples);
  LOAD(getvalue);
  LOAD(getlength);
  LOAD(getisnull);
  LOAD(clear);
  LOAD(conninfoParse);
  LOAD(conninfoFree);
  LOAD(freemem);
#undef LOAD
  return NULL;
}

PGconn *cpq_connect(const char *const *keywords, const char *const *values, int expand) {
  return pq.connectdbParams(keywords, values, expand);
}

ConnStatusType cpq_status(const PGconn *connection) { return pq.status(connection); }

void cpq_finish(PGconn *connection) { pq.finish(connection); }

int cpq_socket(const PGconn *connection) { return pq.socket(connection); }

int cpq_backend_pid(const PGconn *connection) { return pq.backendPID(connection); }

int cpq_server_version(const PGconn *connection) { return pq.serverVersion(connection); }

const char *cpq_error_message(const PGconn *connection) { return pq.errorMessage(connection); }

int cpq_set_nonblocking(PGconn *connection, int value) { return pq.setnonblocking(connection, value); }

PQnoticeReceiver cpq_set_notice_receiver(PGconn *connection, PQnoticeReceiver receiver, void *context) {
  return pq.setNoticeReceiver(connection, receiver, context);
}

int cpq_enter_pipeline_mode(PGconn *connection) { return pq.enterPipelineMode(connection); }

int cpq_pipeline_sync(PGconn *connection) { return pq.pipelineSync(connection); }

int cpq_send_prepare(PGconn *connection, const char *name, const char *query, int count, const Oid *types) {
  return pq.sendPrepare(connection, name, query, count, types);
}

int cpq_send_query_params(
    PGconn *connection, const char *query, int count, const Oid *types, const char *const *values,
    const int *lengths, const int *formats, int result_format) {
  return pq.sendQueryParams(connection, query, count, types, values, lengths, formats, result_format);
}

int cpq_send_query_prepared(
    PGconn *connection, const char *name, int count, const char *const *values, const int *lengths,
    const int *formats, int result_format) {
  return pq.sendQueryPrepared(connection, name, count, values, lengths, formats, result_format);
}

int cpq_flush(PGconn *connection) { return pq.flush(connection); }

int cpq_consume_input(PGconn *connection) { return pq.consumeInput(connection); }

int cpq_is_busy(PGconn *connection) { return pq.isBusy(connection); }

PGresult *cpq_get_result(PGconn *connection) { return pq.getResult(connection); }

ExecStatusType cpq_result_status(const PGresult *result) { return pq.resultStatus(result); }

const char *cpq_result_state(const PGresult *result) {
  return pq.resultErrorField(result, PG_DIAG_SQLSTATE);
}

const char *cpq_result_message(const PGresult *result) {
  const char *primary = pq.resultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
  return primary != NULL ? primary : pq.resultErrorMessage(result);
}

int cpq_row_count(const PGresult *result) { return pq.ntuples(result); }

const char *cpq_value(const PGresult *result, int row, int column) {
  return pq.getvalue(result, row, column);
}

int cpq_length(const PGresult *result, int row, int column) { return pq.getlength(result, row, column); }

int cpq_is_null(const PGresult *result, int row, int column) { return pq.getisnull(result, row, column); }

void cpq_clear(PGresult *result) { pq.clear(result); }

PQconninfoOption *cpq_parse(const char *text, char **message) { return pq.conninfoParse(text, message); }

void cpq_parse_free(PQconninfoOption *options) { pq.conninfoFree(options); }

void cpq_free(void *memory) { pq.freemem(memory); }
