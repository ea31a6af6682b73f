#ifndef APUS_TLS_H
#define APUS_TLS_H

#include <openssl/ssl.h>

#include "apus_device.h"

// TLS as section 1 of the protocol asks for it.

// A context that trusts the authority; `identity_file` NULL: without a certificate. NULL with a text: why not.
SSL_CTX *apus_tls_context(const char *authority_file, const char *identity_file, const char **problem);

// A client's side on a connected or connecting socket; NULL: out of memory.
SSL *apus_tls_new(SSL_CTX *context, int descriptor, const char *name);

// A TCP socket that is connecting or connected to a numeric address; -1: not possible. `is_waiting`: connecting.
int apus_tcp_connect(const char *address, uint16_t port, bool *is_waiting);

// The address at a place: 0 is the first one, then come the alternatives.
struct apus_address apus_address_at(const struct apus_config *config, size_t place);

// What an error of OpenSSL means, and a text for it, in static memory or OpenSSL's.
enum apus_end apus_tls_end(const char **text);

#endif
