#pragma once

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

// libmicrohttpd, loaded when a server starts: it brings GnuTLS with it, although most processes serve no HTTP/1.1 and
// a service accepts pushes before its administration. It takes options and returns information through "..." and
// unions, which Swift cannot call or read. Other functions do what their namesakes in libmicrohttpd do.

/// Loads libmicrohttpd. Call it once, before every other function. NULL: it is ready; otherwise why not, in static
/// memory.
const char *cmhd_load(void);

/// The options of a daemon. Strings are copied or read during the start; null ones are omitted.
typedef struct cmhd_options {
  /// A listening socket. The daemon does not close it once it was quiesced.
  int listener;
  unsigned int connection_limit;
  /// Connections from one IP address; 0 for any number.
  unsigned int address_limit;
  /// Seconds without a byte after which a connection is closed.
  unsigned int idle_seconds;
  /// Bytes for reading from one connection: header fields must fit.
  size_t connection_bytes;
  /// PEM; with these the daemon uses TLS.
  const char *certificate;
  const char *key;
  /// A GnuTLS priority string.
  const char *priorities;
} cmhd_options;

struct MHD_Daemon *cmhd_start(
    const cmhd_options *options, MHD_AccessHandlerCallback handle, MHD_RequestCompletedCallback completed,
    MHD_NotifyConnectionCallback connected, void *context);
/// Stops accepting connections; the listening socket stays open.
void cmhd_quiesce(struct MHD_Daemon *daemon);
void cmhd_stop(struct MHD_Daemon *daemon);

void cmhd_suspend(struct MHD_Connection *connection);
void cmhd_resume(struct MHD_Connection *connection);

/// The connection's socket; -1 if there is none.
int cmhd_descriptor(struct MHD_Connection *connection);
/// The peer's address; null if there is none.
const struct sockaddr *cmhd_peer(struct MHD_Connection *connection);
/// The context that was stored with the connection when it was accepted.
void *cmhd_connection_context(struct MHD_Connection *connection);
/// The peer process of a UNIX socket (SO_PEERCRED); false if unknown.
bool cmhd_peer_credentials(int descriptor, uint32_t *user, int32_t *process);

/// Calls `visit` for each header field or argument of the query.
void cmhd_visit_values(
    struct MHD_Connection *connection, enum MHD_ValueKind kind, MHD_KeyValueIteratorN visit, void *context);

/// A response with a copy of `bytes`; NULL: out of memory.
struct MHD_Response *cmhd_response(size_t count, const void *bytes);
/// A response of unknown length, read in parts of at most `part` bytes; NULL: out of memory.
struct MHD_Response *cmhd_response_streaming(
    size_t part, MHD_ContentReaderCallback read, void *context, MHD_ContentReaderFreeCallback release);
void cmhd_add_header(struct MHD_Response *response, const char *name, const char *value);
enum MHD_Result cmhd_queue(
    struct MHD_Connection *connection, unsigned int status, struct MHD_Response *response);
void cmhd_response_free(struct MHD_Response *response);
