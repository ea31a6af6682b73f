// The C side of ApusTLS: a BIO over lent memory, the handshake callbacks, and OpenSSL macros as functions.
#pragma once

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/// The input and output of the BIO of the current connection. One per worker, lent to one connection at a time, so
/// that an idle connection owns no I/O memory.
typedef struct apus_tls_pump {
  /// Received ciphertext that is not consumed yet. Lent: not owned, not freed.
  const uint8_t *input;
  size_t input_count;
  /// Ciphertext to send. Grows as needed; from malloc.
  uint8_t *output;
  size_t output_count;
  size_t output_capacity;
  /// The fatal alert that OpenSSL put into the output during the current call; -1 if none.
  int alert_sent;
  /// Whether the ClientHello of the current call contained ALPN.
  bool offered_alpn;
  /// The certificate rejected last, for the operator: subject and issuer as OpenSSL prints names, truncated if long,
  /// and the certificate's SHA-256. `has_rejected` until it is taken.
  bool has_rejected;
  char rejected_subject[256];
  char rejected_issuer[256];
  uint8_t rejected_digest[32];
} apus_tls_pump;

/// A BIO without memory of its own; `BIO_set_data` sets the pump that it uses. Null: out of memory.
BIO *apus_tls_bio_new(void);

/// The data for the callbacks of a server's context.
typedef struct apus_tls_policy apus_tls_policy;

/// `protocols` in wire form (RFC 7301, section 3.1: each name with its length before it), in order of preference.
apus_tls_policy *apus_tls_policy_new(const uint8_t *protocols, size_t count, bool requires_alpn);
/// A ClientHello for `name` is then answered with the identity of `context`. The context is not retained.
bool apus_tls_policy_add_name(apus_tls_policy *policy, const char *name, SSL_CTX *context);
/// Whether a certificate was revoked. Called with the SHA-256 (32 bytes, lent for the call) of its DER, and then,
/// unless that was revoked, with that of its issuer's name (DER) and its serial number (magnitude, big-endian).
typedef bool (*apus_tls_is_revoked)(void *argument, const uint8_t *digest);
/// From `apus_tls_policy_install` on, `is_revoked` judges client certificates too. `argument` is not retained.
void apus_tls_policy_set_revocation(apus_tls_policy *policy, apus_tls_is_revoked is_revoked, void *argument);
/// Whether a certificate whose DER has this SHA-256 (32 bytes, lent for the call) was verified before and is valid at
/// `now` (Unix seconds), together with those up to its root.
typedef bool (*apus_tls_is_known)(void *argument, const uint8_t *digest, int64_t now);
/// Such a certificate was verified; it and those up to its root are valid in that period (Unix seconds).
typedef void (*apus_tls_note_known)(void *argument, const uint8_t *digest, int64_t from, int64_t to);
/// From `apus_tls_policy_install` on, a known certificate is not verified again. `argument` is not retained.
void apus_tls_policy_set_known(
    apus_tls_policy *policy, apus_tls_is_known is_known, apus_tls_note_known note_known, void *argument);
void apus_tls_policy_free(apus_tls_policy *policy);
/// Installs the callbacks. The policy must outlive every connection of the context.
void apus_tls_policy_install(SSL_CTX *context, apus_tls_policy *policy);

/// Records fatal alerts in the current pump.
void apus_tls_note_alerts(SSL_CTX *context);

/// Makes a ticket whose client certificate is outside its validity, or was revoked, lead to a full handshake, in which
/// the certificate is judged, and rejected with its own alert. The policy must outlive every connection of the
/// context. Its tickets then contain the certificate as bytes; see `apus_tls_resumed_certificate`.
void apus_tls_check_resumed_certificates(SSL_CTX *context, apus_tls_policy *policy);

/// The client's certificate in DER from the ticket of a resumed session, and its notAfter in Unix seconds. Owned by
/// the connection. Null: the session has none, or was not resumed, and OpenSSL has it.
const uint8_t *apus_tls_resumed_certificate(const SSL *ssl, size_t *count, int64_t *ends);

/// Copies an encoded SSL_SESSION without the peer's certificate to `target`, which has room for `count` bytes. Returns
/// the bytes written; 0 if there is no certificate, or no application data to replace it, or this is not a session.
size_t apus_tls_session_without_peer(const uint8_t *session, size_t count, uint8_t *target);

/// Sets both contexts of a ticket to AES-256-CBC and HMAC-SHA-256 (RFC 5077, section 4). Keys of 32 bytes, `iv` of 16.
/// Encryption removes the certificate where `apus_tls_session_without_peer` does.
bool apus_tls_ticket_prepare(
    EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac, const uint8_t *cipher_key, const uint8_t *mac_key, const uint8_t *iv,
    bool encrypts);

/// The first private key of a PEM text. An encrypted one is an error: OpenSSL's default callback would prompt on the
/// terminal.
EVP_PKEY *apus_tls_read_private_key(BIO *pem);

/// Bytes in use on this process's heap; 0 if the C library does not tell.
size_t apus_heap_bytes_in_use(void);

// Options of SSL_CTX_set_options: macros with parameters in OpenSSL.
static const uint64_t apus_tls_no_renegotiation = SSL_OP_NO_RENEGOTIATION;
static const uint64_t apus_tls_no_compression = SSL_OP_NO_COMPRESSION;
static const uint64_t apus_tls_no_ticket = SSL_OP_NO_TICKET;
static const uint64_t apus_tls_server_preference = SSL_OP_CIPHER_SERVER_PREFERENCE;
static const uint64_t apus_tls_prioritize_chacha = SSL_OP_PRIORITIZE_CHACHA;

static inline bool apus_tls_set_versions(SSL_CTX *context, int minimum, int maximum) {
  return SSL_CTX_set_min_proto_version(context, minimum) == 1 && SSL_CTX_set_max_proto_version(context, maximum) == 1;
}

static inline void apus_tls_set_mode(SSL_CTX *context, long mode) { SSL_CTX_set_mode(context, mode); }

static inline void apus_tls_clear_mode(SSL_CTX *context, long mode) { SSL_CTX_clear_mode(context, mode); }

static inline bool apus_tls_set_groups(SSL_CTX *context, const char *groups) {
  return SSL_CTX_set1_groups_list(context, groups) == 1;
}

static inline void apus_tls_set_session_cache_mode(SSL_CTX *context, long mode) {
  SSL_CTX_set_session_cache_mode(context, mode);
}

static inline void apus_tls_set_certificate_list_limit(SSL_CTX *context, long bytes) {
  SSL_CTX_set_max_cert_list(context, bytes);
}

/// Adds `certificate` to the chain that is sent; retains it.
static inline bool apus_tls_add_chain_certificate(SSL_CTX *context, X509 *certificate) {
  return SSL_CTX_add1_chain_cert(context, certificate) == 1;
}

static inline bool apus_tls_set_server_name(SSL *ssl, const char *name) {
  return SSL_set_tlsext_host_name(ssl, name) == 1;
}
