#define _GNU_SOURCE
#include "policy.h"

#include <openssl/crypto.h>
#include <openssl/pem.h>
#include <openssl/x509_vfy.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

static int read_lent(BIO *bio, char *target, int count) {
  BIO_clear_retry_flags(bio);
  apus_tls_pump *pump = BIO_get_data(bio);
  if (count <= 0) return 0;
  if (pump == NULL || pump->input_count == 0) {
    BIO_set_retry_read(bio);
    return -1;
  }
  size_t taken = (size_t)count < pump->input_count ? (size_t)count : pump->input_count;
  memcpy(target, pump->input, taken);
  pump->input += taken;
  pump->input_count -= taken;
  return (int)taken;
}

static int append_output(BIO *bio, const char *source, int count) {
  BIO_clear_retry_flags(bio);
  apus_tls_pump *pump = BIO_get_data(bio);
  if (count <= 0) return 0;
  if (pump == NULL) return -1;
  size_t needed = pump->output_count + (size_t)count;
  if (needed > pump->output_capacity) {
    size_t capacity = pump->output_capacity < 16384 ? 32768 : pump->output_capacity * 2;
    while (capacity < needed) capacity *= 2;
    uint8_t *grown = realloc(pump->output, capacity);
    if (grown == NULL) return -1;
    pump->output = grown;
    pump->output_capacity = capacity;
  }
  memcpy(pump->output + pump->output_count, source, (size_t)count);
  pump->output_count = needed;
  return count;
}

static long control(BIO *bio, int command, long number, void *pointer) {
  (void)number;
  (void)pointer;
  apus_tls_pump *pump = BIO_get_data(bio);
  switch (command) {
  case BIO_CTRL_FLUSH: return 1;
  case BIO_CTRL_PENDING: return pump == NULL ? 0 : (long)pump->input_count;
  default: return 0;
  }
}

static int create(BIO *bio) {
  BIO_set_init(bio, 1);
  BIO_set_data(bio, NULL);
  return 1;
}

static BIO_METHOD *method;
static CRYPTO_ONCE method_once = CRYPTO_ONCE_STATIC_INIT;

static void make_method(void) {
  BIO_METHOD *made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "lent memory");
  if (made == NULL) return;
  BIO_meth_set_read(made, read_lent);
  BIO_meth_set_write(made, append_output);
  BIO_meth_set_ctrl(made, control);
  BIO_meth_set_create(made, create);
  method = made;
}

BIO *apus_tls_bio_new(void) {
  if (!CRYPTO_THREAD_run_once(&method_once, make_method) || method == NULL) return NULL;
  return BIO_new(method);
}

// The read side, because the write side is behind a buffering BIO during a handshake.
static apus_tls_pump *pump_of(const SSL *ssl) {
  BIO *bio = SSL_get_rbio(ssl);
  return bio == NULL ? NULL : BIO_get_data(bio);
}

static void note_alert(const SSL *ssl, int where, int value) {
  if ((where & SSL_CB_WRITE_ALERT) != SSL_CB_WRITE_ALERT || value >> 8 != SSL3_AL_FATAL) return;
  apus_tls_pump *pump = pump_of(ssl);
  if (pump != NULL) pump->alert_sent = value & 0xff;
}

void apus_tls_note_alerts(SSL_CTX *context) { SSL_CTX_set_info_callback(context, note_alert); }

apus_tls_policy *apus_tls_policy_new(const uint8_t *protocols, size_t count, bool requires_alpn) {
  apus_tls_policy *policy = calloc(1, sizeof *policy);
  if (policy == NULL) return NULL;
  policy->requires_alpn = requires_alpn;
  if (count == 0) return policy;
  policy->protocols = malloc(count);
  if (policy->protocols == NULL) {
    free(policy);
    return NULL;
  }
  memcpy(policy->protocols, protocols, count);
  policy->protocols_count = count;
  return policy;
}

bool apus_tls_policy_add_name(apus_tls_policy *policy, const char *name, SSL_CTX *context) {
  void *grown = realloc(policy->names, (policy->names_count + 1) * sizeof *policy->names);
  if (grown == NULL) return false;
  policy->names = grown;
  char *copy = strdup(name);
  if (copy == NULL) return false;
  policy->names[policy->names_count].name = copy;
  policy->names[policy->names_count].context = context;
  policy->names_count += 1;
  return true;
}

void apus_tls_policy_set_revocation(apus_tls_policy *policy, apus_tls_is_revoked is_revoked, void *argument) {
  policy->is_revoked = is_revoked;
  policy->revocation_argument = argument;
}

void apus_tls_policy_set_known(
    apus_tls_policy *policy, apus_tls_is_known is_known, apus_tls_note_known note_known, void *argument) {
  policy->is_known = is_known;
  policy->note_known = note_known;
  policy->known_argument = argument;
}

void apus_tls_policy_free(apus_tls_policy *policy) {
  if (policy == NULL) return;
  for (size_t index = 0; index < policy->names_count; index++) free(policy->names[index].name);
  free(policy->names);
  free(policy->protocols);
  free(policy);
}

// RFC 7301, section 3.2: no_application_protocol is for a server that supports none of the client's protocols. A
// client that offers none is refused here, because the selection callback is not called for it.
static int examine_hello(SSL *ssl, int *alert, void *argument) {
  const apus_tls_policy *policy = argument;
  const unsigned char *extension;
  size_t count;
  bool offered = SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_application_layer_protocol_negotiation, &extension, &count);
  apus_tls_pump *pump = pump_of(ssl);
  if (pump != NULL) pump->offered_alpn = offered;
  if (offered || !policy->requires_alpn) return SSL_CLIENT_HELLO_SUCCESS;
  *alert = SSL_AD_NO_APPLICATION_PROTOCOL;
  return SSL_CLIENT_HELLO_ERROR;
}

static int select_protocol(
    SSL *ssl, const unsigned char **selected, unsigned char *selected_count, const unsigned char *offered,
    unsigned int offered_count, void *argument) {
  (void)ssl;
  const apus_tls_policy *policy = argument;
  unsigned char *match;
  int outcome = SSL_select_next_proto(
      &match, selected_count, policy->protocols, (unsigned int)policy->protocols_count, offered, offered_count);
  if (outcome != OPENSSL_NPN_NEGOTIATED) return SSL_TLSEXT_ERR_ALERT_FATAL;
  *selected = match;
  return SSL_TLSEXT_ERR_OK;
}

static int select_identity(SSL *ssl, int *alert, void *argument) {
  (void)alert;
  const apus_tls_policy *policy = argument;
  const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
  if (name == NULL) return SSL_TLSEXT_ERR_NOACK;
  for (size_t index = 0; index < policy->names_count; index++) {
    if (strcasecmp(name, policy->names[index].name) != 0) continue;
    return SSL_set_SSL_CTX(ssl, policy->names[index].context) == NULL ? SSL_TLSEXT_ERR_ALERT_FATAL : SSL_TLSEXT_ERR_OK;
  }
  return SSL_TLSEXT_ERR_NOACK;
}

// Issuer and serial number identify a certificate (RFC 5280, section 4.1.2.2), as on revocation lists.
static bool digest_of_place(const X509 *certificate, uint8_t digest[32]) {
  const unsigned char *name;
  size_t name_count;
  const ASN1_INTEGER *serial = X509_get0_serialNumber(certificate);
  if (X509_NAME_get0_der(X509_get_issuer_name(certificate), &name, &name_count) != 1) return false;
  EVP_MD_CTX *hash = EVP_MD_CTX_new();
  bool done = hash != NULL && EVP_DigestInit_ex(hash, EVP_sha256(), NULL) == 1
      && EVP_DigestUpdate(hash, name, name_count) == 1
      && EVP_DigestUpdate(hash, ASN1_STRING_get0_data(serial), (size_t)ASN1_STRING_length(serial)) == 1
      && EVP_DigestFinal_ex(hash, digest, NULL) == 1;
  EVP_MD_CTX_free(hash);
  return done;
}

bool apus_tls_digests(const X509 *certificate, uint8_t whole[32], uint8_t place[32]) {
  unsigned int count = 0;
  return X509_digest(certificate, EVP_sha256(), whole, &count) == 1 && count == 32
      && digest_of_place(certificate, place);
}

bool apus_tls_revokes(const apus_tls_policy *policy, const uint8_t whole[32], const uint8_t place[32]) {
  return policy->is_revoked != NULL
      && (policy->is_revoked(policy->revocation_argument, whole)
          || policy->is_revoked(policy->revocation_argument, place));
}

bool apus_tls_revokes_certificate(const apus_tls_policy *policy, const X509 *certificate) {
  if (policy->is_revoked == NULL) return false;
  uint8_t whole[32], place[32];
  // A certificate without digests is rejected.
  return !apus_tls_digests(certificate, whole, place) || apus_tls_revokes(policy, whole, place);
}

int64_t apus_tls_unix_seconds(const ASN1_TIME *time) {
  struct tm parts;
  return ASN1_TIME_to_tm(time, &parts) == 1 ? (int64_t)timegm(&parts) : 0;
}

int64_t apus_tls_verification_time(const X509_VERIFY_PARAM *parameters) {
  bool is_given = (X509_VERIFY_PARAM_get_flags((X509_VERIFY_PARAM *)parameters) & X509_V_FLAG_USE_CHECK_TIME) != 0;
  return is_given ? (int64_t)X509_VERIFY_PARAM_get_time(parameters) : (int64_t)time(NULL);
}

// The period in which every certificate of the chain is valid.
static void note_known(const apus_tls_policy *policy, X509_STORE_CTX *store, const uint8_t digest[32]) {
  int64_t from = INT64_MIN, to = INT64_MAX;
  STACK_OF(X509) *chain = X509_STORE_CTX_get0_chain(store);
  for (int index = 0; index < sk_X509_num(chain); index++) {
    const X509 *certificate = sk_X509_value(chain, index);
    int64_t start = apus_tls_unix_seconds(X509_get0_notBefore(certificate));
    int64_t end = apus_tls_unix_seconds(X509_get0_notAfter(certificate));
    if (start > from) from = start;
    if (end < to) to = end;
  }
  if (from < to) policy->note_known(policy->known_argument, digest, from, to);
}

// Each certificate's chain is built and verified once: most handshakes are of returning peers, and a digest takes a
// thirtieth of the work.
static int verify_once(const apus_tls_policy *policy, X509_STORE_CTX *store) {
  if (policy->is_known == NULL) return X509_verify_cert(store);
  uint8_t digest[32];
  unsigned int count = 0;
  const X509 *certificate = X509_STORE_CTX_get0_cert(store);
  if (X509_digest(certificate, EVP_sha256(), digest, &count) != 1) return X509_verify_cert(store);
  if (policy->is_known(policy->known_argument, digest, apus_tls_verification_time(X509_STORE_CTX_get0_param(store)))) {
    X509_STORE_CTX_set_error(store, X509_V_OK);
    return 1;
  }
  int outcome = X509_verify_cert(store);
  if (outcome > 0) note_known(policy, store, digest);
  return outcome;
}

static void note_rejected(X509_STORE_CTX *store) {
  const SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
  apus_tls_pump *pump = ssl == NULL ? NULL : pump_of(ssl);
  const X509 *certificate = X509_STORE_CTX_get0_cert(store);
  unsigned int count = 0;
  if (pump == NULL || certificate == NULL || X509_digest(certificate, EVP_sha256(), pump->rejected_digest, &count) != 1)
    return;
  X509_NAME_oneline(X509_get_subject_name(certificate), pump->rejected_subject, sizeof pump->rejected_subject);
  X509_NAME_oneline(X509_get_issuer_name(certificate), pump->rejected_issuer, sizeof pump->rejected_issuer);
  pump->has_rejected = true;
}

// Around the whole verification and not for each certificate of the chain: the check concerns only the first one, runs
// once, and only if everything else is valid. It also covers known certificates.
static int verify_chain(X509_STORE_CTX *store, void *argument) {
  int outcome = verify_once(argument, store);
  if (outcome > 0 && apus_tls_revokes_certificate(argument, X509_STORE_CTX_get0_cert(store))) {
    X509_STORE_CTX_set_error(store, X509_V_ERR_CERT_REVOKED);
    outcome = 0;
  }
  if (outcome <= 0) note_rejected(store);
  return outcome;
}

void apus_tls_policy_install(SSL_CTX *context, apus_tls_policy *policy) {
  if (policy->is_revoked != NULL || policy->is_known != NULL)
    SSL_CTX_set_cert_verify_callback(context, verify_chain, policy);
  SSL_CTX_set_client_hello_cb(context, examine_hello, policy);
  if (policy->protocols_count > 0) SSL_CTX_set_alpn_select_cb(context, select_protocol, policy);
  SSL_CTX_set_tlsext_servername_callback(context, select_identity);
  SSL_CTX_set_tlsext_servername_arg(context, policy);
}

static int no_password(char *buffer, int size, int writes, void *argument) {
  (void)buffer;
  (void)size;
  (void)writes;
  (void)argument;
  return -1;
}

EVP_PKEY *apus_tls_read_private_key(BIO *pem) { return PEM_read_bio_PrivateKey(pem, NULL, no_password, NULL); }

size_t apus_heap_bytes_in_use(void) {
#ifdef __GLIBC__
  struct mallinfo2 figures = mallinfo2();
  return figures.uordblks + figures.hblkhd;
#else
  return 0;
#endif
}
