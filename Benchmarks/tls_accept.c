// The yardstick of trust.py: a server that only makes handshakes with certificates on both sides.
//
//   tls_accept PORT CERTIFICATE KEY AUTHORITY
//
// One thread accepts one connection on 127.0.0.1 at a time, requires a certificate that AUTHORITY issued, reads until
// the end, and closes. Version, suites, groups, ALPN and tickets are those of Apus. On SIGTERM it prints the number of
// successful handshakes, and of those that resumed a session.

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static unsigned long full, resumed, failed;

static void check(int good, const char *what) {
  if (good) return;
  perror(what);
  ERR_print_errors_fp(stderr);
  exit(1);
}

static void finish(int number) {
  (void)number;
  char line[128];
  int count = snprintf(line, sizeof line, "{\"full\":%lu,\"resumed\":%lu,\"failed\":%lu}\n", full, resumed, failed);
  _exit(write(1, line, (size_t)count) == count ? 0 : 1);
}

static int select_protocol(
    SSL *ssl, const unsigned char **selected, unsigned char *count, const unsigned char *offered,
    unsigned int offered_count, void *argument) {
  static const unsigned char own[] = "\x0e" "apus-courier/1";
  unsigned char *match;
  (void)ssl;
  (void)argument;
  if (SSL_select_next_proto(&match, count, own, sizeof own - 1, offered, offered_count) != OPENSSL_NPN_NEGOTIATED)
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  *selected = match;
  return SSL_TLSEXT_ERR_OK;
}

static SSL_CTX *make_context(char **files) {
  SSL_CTX *context = SSL_CTX_new(TLS_server_method());
  check(context != NULL, "SSL_CTX_new");
  check(SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION), "version");
  check(SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384"), "suites");
  check((int)SSL_CTX_set1_groups_list(context, "X25519:P-256"), "groups");
  check(SSL_CTX_use_certificate_chain_file(context, files[0]), files[0]);
  check(SSL_CTX_use_PrivateKey_file(context, files[1], SSL_FILETYPE_PEM), files[1]);
  check(SSL_CTX_load_verify_locations(context, files[2], NULL), files[2]);
  SSL_CTX_set_client_CA_list(context, SSL_load_client_CA_file(files[2]));
  X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(context), X509_V_FLAG_PARTIAL_CHAIN);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
  SSL_CTX_set_options(context, SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_alpn_select_cb(context, select_protocol, NULL);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context, 1);
  check(SSL_CTX_set_session_id_context(context, (const unsigned char *)"accept", 6), "session scope");
  return context;
}

static int make_listener(const char *port) {
  int on = 1;
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  check(listener >= 0, "socket");
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  check(bind(listener, (struct sockaddr *)&address, sizeof address) == 0, "bind");
  check(listen(listener, 128) == 0, "listen");
  return listener;
}

static void serve(SSL_CTX *context, int client) {
  static char buffer[16384];
  SSL *ssl = SSL_new(context);
  check(ssl != NULL && SSL_set_fd(ssl, client), "SSL_new");
  if (SSL_accept(ssl) == 1) {
    if (SSL_session_reused(ssl)) resumed++;
    else full++;
    while (SSL_read(ssl, buffer, sizeof buffer) > 0) {}
    SSL_shutdown(ssl);
  } else {
    failed++;
  }
  ERR_clear_error();
  SSL_free(ssl);
  close(client);
}

int main(int count, char **arguments) {
  if (count != 5) {
    fprintf(stderr, "usage: tls_accept PORT CERTIFICATE KEY AUTHORITY\n");
    return 2;
  }
  signal(SIGTERM, finish);
  SSL_CTX *context = make_context(arguments + 2);
  int listener = make_listener(arguments[1]);
  while (1) {
    int client = accept(listener, NULL, NULL);
    check(client >= 0, "accept");
    serve(context, client);
  }
}
