#define _GNU_SOURCE
#include "identity.h"

#include <fcntl.h>
#include <limits.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/sha.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "message.h"

static int64_t unix_seconds(const ASN1_TIME *time) {
  struct tm broken;
  return ASN1_TIME_to_tm(time, &broken) == 1 ? (int64_t)timegm(&broken) : 0;
}

int64_t apus_renewal_seconds(const char *identity_file) {
  FILE *file = fopen(identity_file, "re");
  if (file == NULL) return 0;
  X509 *certificate = PEM_read_X509(file, NULL, NULL, NULL);
  fclose(file);
  if (certificate == NULL) return 0;
  int64_t begin = unix_seconds(X509_get0_notBefore(certificate));
  int64_t end = unix_seconds(X509_get0_notAfter(certificate));
  // Devices whose certificates were issued together must not all ask at the same time.
  unsigned char digest[SHA256_DIGEST_LENGTH] = {0};
  X509_digest(certificate, EVP_sha256(), digest, NULL);
  X509_free(certificate);
  int64_t third = (end - begin) / 3;
  return end - third + third / 2 * (int64_t)apus_number(digest, 2) / 65536;
}

EVP_PKEY *apus_new_key(void) { return EVP_EC_gen("P-256"); }

// Writes a file that replaces another one at once; the caller writes between these two.
static FILE *begin_file(const char *path, char *new_path, size_t room) {
  int count = snprintf(new_path, room, "%s.new", path);
  if (count < 0 || (size_t)count >= room) return NULL;
  int descriptor = open(new_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (descriptor < 0) return NULL;
  FILE *file = fdopen(descriptor, "w");
  if (file == NULL) close(descriptor);
  return file;
}

static bool end_file(FILE *file, const char *path, const char *new_path, bool is_fine) {
  is_fine = is_fine && fflush(file) == 0 && fsync(fileno(file)) == 0;
  is_fine = fclose(file) == 0 && is_fine;
  if (is_fine && rename(new_path, path) == 0) return true;
  unlink(new_path);
  return false;
}

EVP_PKEY *apus_kept_key(const char *path) {
  FILE *file = fopen(path, "re");
  if (file != NULL) {
    EVP_PKEY *key = PEM_read_PrivateKey(file, NULL, NULL, NULL);
    fclose(file);
    return key;
  }
  EVP_PKEY *key = apus_new_key();
  char new_path[PATH_MAX];
  file = key != NULL ? begin_file(path, new_path, sizeof new_path) : NULL;
  bool is_written =
      file != NULL
      && end_file(file, path, new_path, PEM_write_PKCS8PrivateKey(file, key, NULL, NULL, 0, NULL, NULL) == 1);
  if (is_written) return key;
  EVP_PKEY_free(key);
  return NULL;
}

size_t apus_certificate_request(EVP_PKEY *key, uint8_t *memory, size_t room) {
  X509_REQ *request = X509_REQ_new();
  size_t count = 0;
  if (request != NULL && X509_REQ_set_version(request, X509_REQ_VERSION_1) == 1
      && X509_REQ_set_pubkey(request, key) == 1 && X509_REQ_sign(request, key, EVP_sha256()) > 0) {
    int needed = i2d_X509_REQ(request, NULL);
    if (needed > 0 && (size_t)needed <= room) {
      unsigned char *target = memory;
      count = (size_t)i2d_X509_REQ(request, &target);
    }
  }
  X509_REQ_free(request);
  return count;
}

const char *apus_store_identity(const char *identity_file, EVP_PKEY *key, const struct apus_frame *answer) {
  char new_path[PATH_MAX];
  FILE *file = begin_file(identity_file, new_path, sizeof new_path);
  if (file == NULL) return "the identity's file cannot be written";
  bool is_fine = PEM_write_PKCS8PrivateKey(file, key, NULL, NULL, 0, NULL, NULL) == 1;
  bool is_own = true;
  struct apus_field field;
  for (size_t offset = 0; is_fine && apus_next_certificate(answer, &offset, &field);) {
    const unsigned char *der = field.value;
    X509 *certificate = d2i_X509(NULL, &der, (long)field.length);
    is_fine = certificate != NULL && PEM_write_X509(file, certificate) == 1
              && (!is_own || X509_check_private_key(certificate, key) == 1);
    is_own = false;
    X509_free(certificate);
  }
  return end_file(file, identity_file, new_path, is_fine) ? NULL : "the new certificate cannot be stored";
}
