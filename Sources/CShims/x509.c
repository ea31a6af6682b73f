#include "apus_x509.h"

#include <arpa/inet.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/pkcs12.h>
#include <openssl/provider.h>
#include <openssl/rsa.h>
#include <string.h>

EVP_PKEY *apus_generate_p256(void) { return EVP_EC_gen("P-256"); }

EVP_PKEY *apus_generate_rsa(size_t bits) { return EVP_RSA_gen(bits); }

size_t apus_bio_bytes(BIO *bio, const unsigned char **bytes) {
  char *start = NULL;
  long count = BIO_get_mem_data(bio, &start);
  *bytes = (const unsigned char *)start;
  return count > 0 ? (size_t)count : 0;
}

void apus_clear_free(void *pointer, size_t length) { OPENSSL_clear_free(pointer, length); }

size_t apus_crl_count(X509_CRL *list) {
  int count = sk_X509_REVOKED_num(X509_CRL_get_REVOKED(list));
  return count > 0 ? (size_t)count : 0;
}

const ASN1_INTEGER *apus_crl_serial(X509_CRL *list, size_t index) {
  const X509_REVOKED *entry = sk_X509_REVOKED_value(X509_CRL_get_REVOKED(list), (int)index);
  if (entry == NULL || X509_REVOKED_get_ext_by_critical(entry, 1, -1) >= 0) return NULL;
  return X509_REVOKED_get0_serialNumber(entry);
}

/// 1, or the error of apus_pkcs12_pem.
static int write_pkcs12(PKCS12 *file, const char *password, BIO *certificates, BIO *key) {
  EVP_PKEY *parsed_key = NULL;
  X509 *certificate = NULL;
  STACK_OF(X509) *others = NULL;
  if (PKCS12_parse(file, password, &parsed_key, &certificate, &others) != 1) return -1;
  int result = -2;
  if (parsed_key && certificate) {
    int written = PEM_write_bio_X509(certificates, certificate);
    for (int i = 0; written && i < sk_X509_num(others); i++)
      written = PEM_write_bio_X509(certificates, sk_X509_value(others, i));
    written = written && PEM_write_bio_PKCS8PrivateKey(key, parsed_key, NULL, NULL, 0, NULL, NULL);
    if (written) result = 1;
  }
  EVP_PKEY_free(parsed_key);
  X509_free(certificate);
  sk_X509_pop_free(others, X509_free);
  return result;
}

int apus_pkcs12_pem(const unsigned char *bytes, size_t count, const char *password, BIO *certificates, BIO *key) {
  // A library context of its own: files of Apple's Keychain and of old programs use encryption from OpenSSL's legacy
  // provider, which nothing else in the process should get.
  OSSL_LIB_CTX *library = OSSL_LIB_CTX_new();
  if (!library) return -1;
  OSSL_PROVIDER *standard = OSSL_PROVIDER_load(library, "default");
  OSSL_PROVIDER *legacy = OSSL_PROVIDER_load(library, "legacy");
  int result = 0;
  PKCS12 *file = PKCS12_init_ex(NID_pkcs7_data, library, NULL);
  const unsigned char *cursor = bytes;
  if (file && d2i_PKCS12(&file, &cursor, (long)count)) result = write_pkcs12(file, password, certificates, key);
  PKCS12_free(file);
  if (legacy) OSSL_PROVIDER_unload(legacy);
  if (standard) OSSL_PROVIDER_unload(standard);
  OSSL_LIB_CTX_free(library);
  return result;
}

int apus_sign_deterministically(EVP_PKEY_CTX *context) {
  const OSSL_PARAM *offered = EVP_PKEY_CTX_settable_params(context);
  if (!offered || !OSSL_PARAM_locate_const(offered, "nonce-type")) return 0;
  unsigned int deterministic = 1;
  OSSL_PARAM params[] = {
    OSSL_PARAM_construct_uint("nonce-type", &deterministic),
    OSSL_PARAM_construct_end(),
  };
  return EVP_PKEY_CTX_set_params(context, params) == 1;
}

size_t apus_address_text(const unsigned char *address, size_t count, char *text) {
  if (count != 4 && count != 16) return 0;
  if (inet_ntop(count == 4 ? AF_INET : AF_INET6, address, text, apus_address_text_size) == NULL) return 0;
  return strlen(text);
}
