#include <microhttpd.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

// libmicrohttpd takes options and returns information through "..." and unions, which Swift cannot call or read.

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

/// Leaves percent signs as they are: path separators are determined before they are decoded.
static inline size_t cmhd_keep_escapes(void *context, struct MHD_Connection *connection, char *text) {
  (void)context;
  (void)connection;
  size_t length = 0;
  while (text[length] != 0) length++;
  return length;
}

static inline struct MHD_Daemon *cmhd_start(
    const cmhd_options *options, MHD_AccessHandlerCallback handle, MHD_RequestCompletedCallback completed,
    MHD_NotifyConnectionCallback connected, void *context) {
  struct MHD_OptionItem items[16];
  int count = 0;
#define CMHD_ADD(o, v, p) items[count++] = (struct MHD_OptionItem){(o), (intptr_t)(v), (void *)(p)}
  CMHD_ADD(MHD_OPTION_LISTEN_SOCKET, options->listener, NULL);
  CMHD_ADD(MHD_OPTION_CONNECTION_LIMIT, options->connection_limit, NULL);
  if (options->address_limit > 0) CMHD_ADD(MHD_OPTION_PER_IP_CONNECTION_LIMIT, options->address_limit, NULL);
  CMHD_ADD(MHD_OPTION_CONNECTION_TIMEOUT, options->idle_seconds, NULL);
  CMHD_ADD(MHD_OPTION_CONNECTION_MEMORY_LIMIT, options->connection_bytes, NULL);
  CMHD_ADD(MHD_OPTION_NOTIFY_COMPLETED, completed, context);
  CMHD_ADD(MHD_OPTION_NOTIFY_CONNECTION, connected, context);
  CMHD_ADD(MHD_OPTION_UNESCAPE_CALLBACK, &cmhd_keep_escapes, NULL);
  // Strict parsing beyond RFC 9112: level 1 refuses everything that a server may refuse.
  CMHD_ADD(MHD_OPTION_STRICT_FOR_CLIENT, 1, NULL);
  unsigned int flags = MHD_USE_EPOLL | MHD_USE_INTERNAL_POLLING_THREAD | MHD_ALLOW_SUSPEND_RESUME;
  if (options->certificate != NULL) {
    flags |= MHD_USE_TLS;
    CMHD_ADD(MHD_OPTION_HTTPS_MEM_CERT, 0, options->certificate);
    CMHD_ADD(MHD_OPTION_HTTPS_MEM_KEY, 0, options->key);
    CMHD_ADD(MHD_OPTION_HTTPS_PRIORITIES, 0, options->priorities);
  }
  CMHD_ADD(MHD_OPTION_END, 0, NULL);
#undef CMHD_ADD
  return MHD_start_daemon(flags, 0, NULL, NULL, handle, context, MHD_OPTION_ARRAY, items, MHD_OPTION_END);
}

/// The connection's socket; -1 if there is none.
static inline int cmhd_descriptor(struct MHD_Connection *connection) {
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  return info == NULL ? -1 : info->connect_fd;
}

/// The peer's address; null if there is none.
static inline const struct sockaddr *cmhd_peer(struct MHD_Connection *connection) {
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
  return info == NULL ? NULL : info->client_addr;
}

/// The context that was stored with the connection when it was accepted.
static inline void *cmhd_connection_context(struct MHD_Connection *connection) {
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
  return info == NULL ? NULL : info->socket_context;
}

/// The peer process of a UNIX socket (SO_PEERCRED); false if unknown.
static inline bool cmhd_peer_credentials(int descriptor, uint32_t *user, int32_t *process) {
  // As `struct ucred`, which glibc declares only under _GNU_SOURCE.
  struct {
    int32_t process;
    uint32_t user;
    uint32_t group;
  } credentials;
  socklen_t size = sizeof credentials;
  if (getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return false;
  *user = credentials.user;
  *process = credentials.process;
  return true;
}
