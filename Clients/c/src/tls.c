#define _GNU_SOURCE
#include "tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/sslerr.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const unsigned char dialect[] = "\x0e" "apus-courier/1";

SSL_CTX *apus_tls_context(const char *authority_file, const char *identity_file, const char **problem) {
  SSL_CTX *context = SSL_CTX_new(TLS_client_method());
  if (context == NULL) {
    *problem = "out of memory";
    return NULL;
  }
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
  // A caller may move the rest of what it writes.
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  // Buffers are only held while bytes are in them.
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  *problem = NULL;
  if (SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1) {
    *problem = "OpenSSL has no TLS 1.2";
  } else if (SSL_CTX_set_alpn_protos(context, dialect, sizeof dialect - 1) != 0) {
    *problem = "out of memory";
  } else if (SSL_CTX_load_verify_file(context, authority_file) != 1) {
    *problem = "the authority's file cannot be read";
  } else if (identity_file != NULL && SSL_CTX_use_certificate_chain_file(context, identity_file) != 1) {
    *problem = "the identity's file has no certificate";
  } else if (
      identity_file != NULL
      && (SSL_CTX_use_PrivateKey_file(context, identity_file, SSL_FILETYPE_PEM) != 1
          || SSL_CTX_check_private_key(context) != 1)) {
    *problem = "the identity's file does not have the certificate's key";
  }
  if (*problem == NULL) return context;
  SSL_CTX_free(context);
  return NULL;
}

SSL *apus_tls_new(SSL_CTX *context, int descriptor, const char *name) {
  SSL *ssl = SSL_new(context);
  if (ssl == NULL) return NULL;
  unsigned char address[16];
  bool is_address = inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1;
  // Names of hosts are also sent as SNI; addresses are not (RFC 6066, section 3).
  bool is_set = is_address ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1
                           : SSL_set1_host(ssl, name) == 1 && SSL_set_tlsext_host_name(ssl, name) == 1;
  if (!is_set || SSL_set_fd(ssl, descriptor) != 1) {
    SSL_free(ssl);
    return NULL;
  }
  SSL_set_connect_state(ssl);
  return ssl;
}

int apus_tcp_connect(const char *address, uint16_t port, bool *is_waiting) {
  struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
  struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
  bool is_v4 = inet_pton(AF_INET, address, &v4.sin_addr) == 1;
  if (!is_v4 && inet_pton(AF_INET6, address, &v6.sin6_addr) != 1) {
    errno = EINVAL;
    return -1;
  }
  int descriptor = socket(is_v4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (descriptor < 0) return -1;
  int on = 1;
  setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const struct sockaddr *target = is_v4 ? (const struct sockaddr *)&v4 : (const struct sockaddr *)&v6;
  int code = connect(descriptor, target, is_v4 ? sizeof v4 : sizeof v6);
  *is_waiting = code != 0 && errno == EINPROGRESS;
  if (code == 0 || *is_waiting) return descriptor;
  int reason = errno;
  close(descriptor);
  errno = reason;
  return -1;
}

struct apus_address apus_address_at(const struct apus_config *config, size_t place) {
  struct apus_address found = {config->address, config->port, config->name};
  if (place > 0) found = config->alternatives[place - 1];
  if (found.name == NULL) found.name = config->name;
  return found;
}

enum apus_end apus_tls_end(const char **text) {
  unsigned long error = ERR_peek_last_error();
  ERR_clear_error();
  if (error == 0) {
    *text = errno != 0 ? strerror(errno) : "the connection ended without a goodbye";
    return APUS_END_NETWORK;
  }
  *text = ERR_reason_error_string(error);
  if (*text == NULL) *text = "TLS failed";
  if (ERR_GET_LIB(error) != ERR_LIB_SSL) return APUS_END_NETWORK;
  switch (ERR_GET_REASON(error)) {
    case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA: return APUS_END_CERTIFICATE;
    default: return APUS_END_NETWORK;
  }
}
