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

/// Takes a PKCS#12 file apart: the key, and the certificate with those that lead to its root behind it, as PEM in the
/// memory BIOs. `password` is UTF-8. 1: done; 0: not PKCS#12; -1: another password, or means of encryption that this
/// OpenSSL does not have; -2: key or certificate are missing.
int apus_pkcs12_pem(const unsigned char *bytes, size_t count, const char *password, BIO *certificates, BIO *key);

/// Asks a signature of `context` for a nonce that follows from key and message (RFC 6979). 1: so it will be; 0: this
/// OpenSSL does not offer that (it comes with 3.2).
int apus_sign_deterministically(EVP_PKEY_CTX *context);
