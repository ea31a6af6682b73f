// Macros and variadic functions of OpenSSL's key and PEM interfaces as functions.
#pragma once

#include <stddef.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

/// A new P-256 key, or NULL.
EVP_PKEY *apus_generate_p256(void);

/// A new RSA key of `bits`, or NULL.
EVP_PKEY *apus_generate_rsa(size_t bits);

/// The bytes that a memory BIO holds; they belong to it. Returns their count.
size_t apus_bio_bytes(BIO *bio, const unsigned char **bytes);

/// Frees what OpenSSL allocated, after overwriting `length` bytes of it.
void apus_clear_free(void *pointer, size_t length);

/// Certificates on the list.
size_t apus_crl_count(X509_CRL *list);

/// The serial number of the one at `index`, as it stands on the list; it belongs to it. NULL: the entry has a critical
/// extension, which may make it one of another issuer (RFC 5280, section 5.3.3).
const ASN1_INTEGER *apus_crl_serial(X509_CRL *list, size_t index);
