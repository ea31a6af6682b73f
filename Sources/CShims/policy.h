// Shared by tls.c and ticket.c.
#pragma once

#include "apus_tls.h"

struct apus_tls_policy {
  uint8_t *protocols;
  size_t protocols_count;
  bool requires_alpn;
  struct {
    char *name;
    SSL_CTX *context;
  } *names;
  size_t names_count;
  apus_tls_is_revoked is_revoked;
  void *revocation_argument;
  apus_tls_is_known is_known;
  apus_tls_note_known note_known;
  void *known_argument;
};

/// The two digests for calling `apus_tls_is_revoked`. False if one cannot be computed.
bool apus_tls_digests(const X509 *certificate, uint8_t whole[32], uint8_t place[32]);
bool apus_tls_revokes(const apus_tls_policy *policy, const uint8_t whole[32], const uint8_t place[32]);
/// Whether a certificate was revoked; one without digests counts as revoked.
bool apus_tls_revokes_certificate(const apus_tls_policy *policy, const X509 *certificate);
/// 0 if the time cannot be read.
int64_t apus_tls_unix_seconds(const ASN1_TIME *time);
/// The time for verifying certificates: the configured one, or now.
int64_t apus_tls_verification_time(const X509_VERIFY_PARAM *parameters);
