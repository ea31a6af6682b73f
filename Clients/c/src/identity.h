#ifndef APUS_IDENTITY_H
#define APUS_IDENTITY_H

#include <openssl/evp.h>

#include "frame.h"

// A device's key and certificates, in one PEM file, sections 1 and 10 of the protocol.

// When to ask for the next certificate, as Unix time: a moment in the first half of the last third of its life, the
// same for each call. 0: the file cannot be read.
int64_t apus_renewal_seconds(const char *identity_file);

EVP_PKEY *apus_new_key(void);
// The key of a file, or a new one that is stored there; NULL: not possible.
EVP_PKEY *apus_kept_key(const char *file);

// PKCS#10 (DER) for the key; 0: not possible.
size_t apus_certificate_request(EVP_PKEY *key, uint8_t *memory, size_t room);

// Replaces the file at once by the key and the certificates of an answer. NULL, or what failed.
const char *apus_store_identity(const char *identity_file, EVP_PKEY *key, const struct apus_frame *answer);

#endif
