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
