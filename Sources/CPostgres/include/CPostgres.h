#pragma once

#include <postgresql/libpq-fe.h>
#include <stddef.h>

// libpq, loaded at its first use: it brings Kerberos and LDAP with it, although a service with the embedded store
// never calls it. Each function does what its namesake in libpq does.

/// Loads libpq. Call it once, before every other function. NULL: it is ready; otherwise why not, in static memory.
const char *cpq_load(void);

PGconn *cpq_connect(const char *const *keywords, const char *const *values, int expand);
ConnStatusType cpq_status(const PGconn *connection);
void cpq_finish(PGconn *connection);
int cpq_socket(const PGconn *connection);
int cpq_backend_pid(const PGconn *connection);
int cpq_server_version(const PGconn *connection);
const char *cpq_error_message(const PGconn *connection);
int cpq_set_nonblocking(PGconn *connection, int value);
PQnoticeReceiver cpq_set_notice_receiver(PGconn *connection, PQnoticeReceiver receiver, void *context);

int cpq_enter_pipeline_mode(PGconn *connection);
int cpq_pipeline_sync(PGconn *connection);
int cpq_send_prepare(PGconn *connection, const char *name, const char *query, int count, const Oid *types);
int cpq_send_query_params(
    PGconn *connection, const char *query, int count, const Oid *types, const char *const *values,
    const int *lengths, const int *formats, int result_format);
int cpq_send_query_prepared(
    PGconn *connection, const char *name, int count, const char *const *values, const int *lengths,
    const int *formats, int result_format);
int cpq_flush(PGconn *connection);
int cpq_consume_input(PGconn *connection);
int cpq_is_busy(PGconn *connection);
PGresult *cpq_get_result(PGconn *connection);

ExecStatusType cpq_result_status(const PGresult *result);
/// The SQLSTATE of an error or a notice, five characters; NULL if it has none.
const char *cpq_result_state(const PGresult *result);
const char *cpq_result_message(const PGresult *result);
int cpq_row_count(const PGresult *result);
const char *cpq_value(const PGresult *result, int row, int column);
int cpq_length(const PGresult *result, int row, int column);
int cpq_is_null(const PGresult *result, int row, int column);
void cpq_clear(PGresult *result);

/// The options in a connection string; NULL: it cannot be read, and `message` says why (free it by `cpq_free`).
PQconninfoOption *cpq_parse(const char *text, char **message);
void cpq_parse_free(PQconninfoOption *options);
void cpq_free(void *memory);
