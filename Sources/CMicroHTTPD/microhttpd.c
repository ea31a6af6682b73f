#include "CMicroHTTPD.h"

#include <dlfcn.h>

static struct {
  struct MHD_Daemon *(*start_daemon)(
      unsigned int, uint16_t, MHD_AcceptPolicyCallback, void *, MHD_AccessHandlerCallback, void *, ...);
  MHD_socket (*quiesce_daemon)(struct MHD_Daemon *);
  void (*stop_daemon)(struct MHD_Daemon *);
  void (*suspend_connection)(struct MHD_Connection *);
  void (*resume_connection)(struct MHD_Connection *);
  const union MHD_ConnectionInfo *(*get_connection_info)(
      struct MHD_Connection *, enum MHD_ConnectionInfoType, ...);
  int (*get_connection_values_n)(
      struct MHD_Connection *, enum MHD_ValueKind, MHD_KeyValueIteratorN, void *);
  struct MHD_Response *(*create_response_from_buffer)(size_t, void *, enum MHD_ResponseMemoryMode);
  struct MHD_Response *(*create_response_from_callback)(
      uint64_t, size_t, MHD_ContentReaderCallback, void *, MHD_ContentReaderFreeCallback);
  enum MHD_Result (*add_response_header)(struct MHD_Response *, const char *, const char *);
  enum MHD_Result (*queue_response)(struct MHD_Connection *, unsigned int, struct MHD_Response *);
  void (*destroy_response)(struct MHD_Response *);
} mhd;

const char *cmhd_load(void) {
  // The name of its interface since version 0.9.50. It stays loaded.
  void *library = dlopen("libmicrohttpd.so.12", RTLD_LAZY | RTLD_LOCAL);
  if (library == NULL) return dlerror();
#define LOAD(name) \
  if ((*(void **)&mhd.name = dlsym(library, "MHD_" #name)) == NULL) return dlerror()
  LOAD(start_daemon);
  LOAD(quiesce_daemon);
  LOAD(stop_daemon);
  LOAD(suspend_connection);
  LOAD(resume_connection);
  LOAD(get_connection_info);
  LOAD(get_connection_values_n);
  LOAD(create_response_from_buffer);
  LOAD(create_response_from_callback);
  LOAD(add_response_header);
  LOAD(queue_response);
  LOAD(destroy_response);
#undef LOAD
  return NULL;
}

/// Leaves percent signs as they are: path separators are determined before they are decoded.
static size_t keep_escapes(void *context, struct MHD_Connection *connection, char *text) {
  (void)context;
  (void)connection;
  size_t length = 0;
  while (text[length] != 0) length++;
  return length;
}

struct MHD_Daemon *cmhd_start(
    const cmhd_options *options, MHD_AccessHandlerCallback handle, MHD_RequestCompletedCallback completed,
    MHD_NotifyConnectionCallback connected, void *context) {
  struct MHD_OptionItem items[16];
  int count = 0;
#define ADD(o, v, p) items[count++] = (struct MHD_OptionItem){(o), (intptr_t)(v), (void *)(p)}
  ADD(MHD_OPTION_LISTEN_SOCKET, options->listener, NULL);
  ADD(MHD_OPTION_CONNECTION_LIMIT, options->connection_limit, NULL);
  if (options->address_limit > 0) ADD(MHD_OPTION_PER_IP_CONNECTION_LIMIT, options->address_limit, NULL);
  ADD(MHD_OPTION_CONNECTION_TIMEOUT, options->idle_seconds, NULL);
  ADD(MHD_OPTION_CONNECTION_MEMORY_LIMIT, options->connection_bytes, NULL);
  ADD(MHD_OPTION_NOTIFY_COMPLETED, completed, context);
  ADD(MHD_OPTION_NOTIFY_CONNECTION, connected, context);
  ADD(MHD_OPTION_UNESCAPE_CALLBACK, &keep_escapes, NULL);
  // Strict parsing beyond RFC 9112: level 1 refuses everything that a server may refuse.
  ADD(MHD_OPTION_STRICT_FOR_CLIENT, 1, NULL);
  unsigned int flags = MHD_USE_EPOLL | MHD_USE_INTERNAL_POLLING_THREAD | MHD_ALLOW_SUSPEND_RESUME;
  if (options->certificate != NULL) {
    flags |= MHD_USE_TLS;
    ADD(MHD_OPTION_HTTPS_MEM_CERT, 0, options->certificate);
    ADD(MHD_OPTION_HTTPS_MEM_KEY, 0, options->key);
    ADD(MHD_OPTION_HTTPS_PRIORITIES, 0, options->priorities);
  }
  ADD(MHD_OPTION_END, 0, NULL);
#undef ADD
  return mhd.start_daemon(flags, 0, NULL, NULL, handle, context, MHD_OPTION_ARRAY, items, MHD_OPTION_END);
}

void cmhd_quiesce(struct MHD_Daemon *daemon) { mhd.quiesce_daemon(daemon); }

void cmhd_stop(struct MHD_Daemon *daemon) { mhd.stop_daemon(daemon); }

void cmhd_suspend(struct MHD_Connection *connection) { mhd.suspend_connection(connection); }

void cmhd_resume(struct MHD_Connection *connection) { mhd.resume_connection(connection); }

int cmhd_descriptor(struct MHD_Connection *connection) {
  const union MHD_ConnectionInfo *info =
      mhd.get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  return info == NULL ? -1 : info->connect_fd;
}

const struct sockaddr *cmhd_peer(struct MHD_Connection *connection) {
  const union MHD_ConnectionInfo *info =
      mhd.get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
  return info == NULL ? NULL : info->client_addr;
}

void *cmhd_connection_context(struct MHD_Connection *connection) {
  const union MHD_ConnectionInfo *info =
      mhd.get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
  return info == NULL ? NULL : info->socket_context;
}

bool cmhd_peer_credentials(int descriptor, uint32_t *user, int32_t *process) {
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

void cmhd_visit_values(
    struct MHD_Connection *connection, enum MHD_ValueKind kind, MHD_KeyValueIteratorN visit, void *context) {
  mhd.get_connection_values_n(connection, kind, visit, context);
}

struct MHD_Response *cmhd_response(size_t count, const void *bytes) {
  return mhd.create_response_from_buffer(count, (void *)bytes, MHD_RESPMEM_MUST_COPY);
}

struct MHD_Response *cmhd_response_streaming(
    size_t part, MHD_ContentReaderCallback read, void *context, MHD_ContentReaderFreeCallback release) {
  return mhd.create_response_from_callback(MHD_SIZE_UNKNOWN, part, read, context, release);
}

void cmhd_add_header(struct MHD_Response *response, const char *name, const char *value) {
  mhd.add_response_header(response, name, value);
}

enum MHD_Result cmhd_queue(
    struct MHD_Connection *connection, unsigned int status, struct MHD_Response *response) {
  return mhd.queue_response(connection, status, response);
}

void cmhd_response_free(struct MHD_Response *response) { mhd.destroy_response(response); }
