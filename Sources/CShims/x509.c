#include "apus_x509.h"

#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/rsa.h>

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
