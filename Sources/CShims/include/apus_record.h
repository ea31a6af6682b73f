// OpenSSL functions for the record layer of ApusTLS: the AEADs of TLS 1.3, its key schedule, and access to the secrets
// of a handshake.
#pragma once

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// The cipher suites of TLS 1.3 (RFC 8446, appendix B.4) that this project offers.
typedef enum apus_suite {
  apus_suite_aes128_gcm_sha256,
  apus_suite_aes256_gcm_sha384,
  apus_suite_chacha20_poly1305_sha256,
} apus_suite;

enum { apus_suites = 3, apus_tag_bytes = 16, apus_secret_bytes = 48 };

/// The state of one direction. RFC 8446, sections 5.3 and 7.3.
typedef struct apus_record_keys {
  /// The sequence number of the next record.
  uint64_t sequence;
  uint8_t iv[12];
  uint8_t key[32];
  /// The secret for deriving the next keys: 32 bytes, 48 with SHA-384.
  uint8_t secret[apus_secret_bytes];
} apus_record_keys;

/// The results of one connection's handshake: enough to continue without OpenSSL.
typedef struct apus_traffic {
  uint8_t client_secret[apus_secret_bytes];
  uint8_t server_secret[apus_secret_bytes];
  size_t client_count, server_count;
  /// Records under these secrets.
  uint64_t client_records, server_records;
  bool is_server;
  /// A KeyUpdate occurred: the secrets are no longer in use.
  bool is_stale;
} apus_traffic;

/// HKDF-Expand-Label without context, for at most one block of the hash (RFC 8446, section 7.1).
bool apus_expand_label(apus_suite suite, const uint8_t *secret, const char *label, uint8_t *target, size_t count);
/// Derives the current keys of the server's or the client's records.
bool apus_keys_begin(apus_record_keys *keys, apus_suite suite, const apus_traffic *traffic, bool of_server);
/// Derives the next generation: "traffic upd" (RFC 8446, section 7.2).
bool apus_keys_update(apus_record_keys *keys, apus_suite suite);
void apus_wipe(void *target, size_t count);

/// The size of a direction's packed state.
enum { apus_packed_bytes = 68 };
/// Packs the state into `apus_packed_bytes`: the keys of AES-128 fit; other keys are omitted.
void apus_keys_pack(const apus_record_keys *keys, apus_suite suite, uint8_t *target);
/// Unpacks the state; omitted keys are derived from the secret again. False: out of memory.
bool apus_keys_unpack(apus_record_keys *keys, apus_suite suite, const uint8_t *source);

/// An AEAD in one direction, lent to one connection at a time. It remembers which key it has.
typedef struct apus_aead apus_aead;

/// Null if out of memory, or if OpenSSL lacks this cipher.
apus_aead *apus_aead_new(apus_suite suite, bool seals);
void apus_aead_free(apus_aead *aead);
/// Forgets the key.
void apus_aead_forget(apus_aead *aead);
/// Encrypts `count` bytes of TLSInnerPlaintext in place, and appends the tag. Increments the sequence number. `header`
/// is the record's header of five bytes.
bool apus_aead_seal(apus_aead *aead, apus_record_keys *keys, const uint8_t *header, uint8_t *text, size_t count);
/// Decrypts `count` bytes with their tag, at least 17, into `target`, which may be `source` or must not overlap it.
/// Increments the sequence number. False: not authentic; the content of `target` must then not be used.
bool apus_aead_open(
    apus_aead *aead, apus_record_keys *keys, const uint8_t *header, const uint8_t *source, size_t count,
    uint8_t *target);

/// Records the secrets and record counts of connections that have an `apus_traffic`.
void apus_traffic_watch(SSL_CTX *context);
/// Attaches that memory to the connection; null detaches it.
bool apus_traffic_attach(SSL *ssl, apus_traffic *traffic);
