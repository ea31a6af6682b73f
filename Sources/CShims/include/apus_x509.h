// Macros and variadic functions of OpenSSL's key and PEM interfaces as functions.
#pragma once

#include <netinet/in.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <stddef.h>

/// A new P-256 key, or NULL.
EVP_PKEY *apus_generate_p256(void);

/// A new RSA key of `bits`, or NULL.
EVP_PKEY *apus_generate_rsa(size_t bits);

/// The bytes that a memory BIO holds; they belong to it. Returns their count.
size_t apus_bio_bytes(BIO *bio, const unsigned char **bytes);

/// Frees what OpenSSL allocated, after overwriting `length` bytes of it.
void apus_clear_free(void *pointer, size_t length);

/// The number of certificates on the list.
size_t apus_crl_count(X509_CRL *list);

/// The serial number of the entry at `index`, owned by the list. NULL: the entry has a critical extension, which may
/// assign it to another issuer (RFC 5280, section 5.3.3).
const ASN1_INTEGER *apus_crl_serial(X509_CRL *list, size_t index);

/// Splits a PKCS#12 file: the key, and the certificate followed by those up to its root, as PEM in the memory BIOs.
/// `password` is UTF-8. 1: success; 0: not PKCS#12; -1: wrong password, or encryption that this OpenSSL does not
/// support; -2: key or certificate is missing.
int apus_pkcs12_pem(const unsigned char *bytes, size_t count, const char *password, BIO *certificates, BIO *key);

/// Makes signatures of `context` use a nonce derived from key and message (RFC 6979). 1: success; 0: not supported by
/// this OpenSSL (3.2 and later support it).
int apus_sign_deterministically(EVP_PKEY_CTX *context);

enum { apus_address_text_size = INET6_ADDRSTRLEN };

/// Writes an IP address of 4 or 16 bytes as people do (IPv6: RFC 5952), with a final 0, to `text`, which has room for
/// `apus_address_text_size` bytes. Returns the length of the text; 0: this is no address.
size_t apus_address_text(const unsigned char *address, size_t count, char *text);
