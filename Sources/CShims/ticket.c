#include "policy.h"

#include <openssl/core_dispatch.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/provider.h>
#include <string.h>
#include <time.h>

// OpenSSL writes the client's certificate into a ticket, as an X509, and parses it each time: once when opening a
// ticket, and again when sealing one, because it copies the session through its encoding. Parsing one takes OpenSSL
// 3.0 about 100 us, most of it in searching for a decoder for its key, so both together were more than a third of a
// resumed handshake. So the certificate is stored in the ticket as unparsed bytes ("application data"), preceded by
// the data needed at each resumption, and is removed from where OpenSSL has it.

static const size_t facts_count = 1 + 8 + 8 + 32 + 32;
enum { facts_version = 1 };

static void put_seconds(uint8_t *bytes, int64_t seconds) {
  for (int index = 0; index < 8; index++) bytes[index] = (uint8_t)((uint64_t)seconds >> (56 - 8 * index));
}

static int64_t take_seconds(const uint8_t *bytes) {
  uint64_t seconds = 0;
  for (int index = 0; index < 8; index++) seconds = seconds << 8 | bytes[index];
  return (int64_t)seconds;
}

// Called before a ticket is made. Stores version, validity, both digests, DER.
static int remember_certificate(SSL *ssl, void *argument) {
  (void)argument;
  const X509 *certificate = SSL_get0_peer_certificate(ssl);
  SSL_SESSION *session = SSL_get_session(ssl);
  int count = certificate == NULL ? 0 : i2d_X509(certificate, NULL);
  // A resumed session already has this data.
  if (count <= 0 || session == NULL) return 1;
  uint8_t *facts = OPENSSL_malloc(facts_count + (size_t)count);
  if (facts == NULL) return 1;
  facts[0] = facts_version;
  put_seconds(facts + 1, apus_tls_unix_seconds(X509_get0_notBefore(certificate)));
  put_seconds(facts + 9, apus_tls_unix_seconds(X509_get0_notAfter(certificate)));
  uint8_t *der = facts + facts_count;
  // Without them OpenSSL keeps the certificate.
  if (apus_tls_digests(certificate, facts + 17, facts + 49) && i2d_X509(certificate, &der) == count)
    SSL_SESSION_set1_ticket_appdata(session, facts, facts_count + (size_t)count);
  OPENSSL_free(facts);
  return 1;
}

// Null: the session has no certificate stored this way.
static const uint8_t *facts_of(SSL_SESSION *session, size_t *count) {
  void *facts = NULL;
  if (session == NULL || SSL_SESSION_get0_ticket_appdata(session, &facts, count) != 1 || *count == 0) return NULL;
  return facts;
}

const uint8_t *apus_tls_resumed_certificate(const SSL *ssl, size_t *count, int64_t *ends) {
  const uint8_t *facts = facts_of(SSL_get_session(ssl), count);
  if (facts == NULL || *count <= facts_count) return NULL;
  *ends = take_seconds(facts + 9);
  *count -= facts_count;
  return facts + facts_count;
}

static bool may_resume(SSL *ssl, SSL_SESSION *session, const apus_tls_policy *policy) {
  size_t count;
  const uint8_t *facts = facts_of(session, &count);
  int64_t now = apus_tls_verification_time(SSL_get0_param(ssl));
  if (facts != NULL)
    return count > facts_count && facts[0] == facts_version && take_seconds(facts + 1) <= now
        && now <= take_seconds(facts + 9) && !apus_tls_revokes(policy, facts + 17, facts + 49);
  // A ticket of an earlier version of Apus, which left the certificate in place.
  const X509 *certificate = SSL_SESSION_get0_peer(session);
  return certificate == NULL
      || (apus_tls_unix_seconds(X509_get0_notBefore(certificate)) <= now
          && now <= apus_tls_unix_seconds(X509_get0_notAfter(certificate))
          && !apus_tls_revokes_certificate(policy, certificate));
}

static SSL_TICKET_RETURN judge_ticket(
    SSL *ssl, SSL_SESSION *session, const unsigned char *key_name, size_t key_name_count, SSL_TICKET_STATUS status,
    void *argument) {
  (void)key_name;
  (void)key_name_count;
  if (status != SSL_TICKET_SUCCESS && status != SSL_TICKET_SUCCESS_RENEW) return SSL_TICKET_RETURN_IGNORE_RENEW;
  if (!may_resume(ssl, session, argument)) return SSL_TICKET_RETURN_IGNORE_RENEW;
  return status == SSL_TICKET_SUCCESS ? SSL_TICKET_RETURN_USE : SSL_TICKET_RETURN_USE_RENEW;
}

void apus_tls_check_resumed_certificates(SSL_CTX *context, apus_tls_policy *policy) {
  SSL_CTX_set_session_ticket_cb(context, remember_certificate, judge_ticket, policy);
}

// MARK: Removing the certificate

typedef struct {
  uint8_t tag;
  /// The length of tag and length, and of the content after them.
  size_t header, content;
} element;

// DER with one-byte tags and lengths of at most three bytes, as in a session.
static bool next_element(const uint8_t *bytes, size_t count, element *found) {
  if (count < 2) return false;
  found->tag = bytes[0];
  size_t more = bytes[1] < 0x80 ? 0 : bytes[1] & 0x7f;
  if (bytes[1] == 0x80 || more > 3 || count < 2 + more) return false;
  found->content = more == 0 ? bytes[1] : 0;
  for (size_t index = 0; index < more; index++) found->content = found->content << 8 | bytes[2 + index];
  found->header = 2 + more;
  return found->content <= count - found->header;
}

enum {
  // SSL_SESSION_ASN1 in OpenSSL's ssl/ssl_asn1.c.
  peer_tag = 0xa3,
  application_data_tag = 0xb2,
};

size_t apus_tls_session_without_peer(const uint8_t *session, size_t count, uint8_t *target) {
  element whole, part;
  if (!next_element(session, count, &whole) || whole.header + whole.content != count) return 0;
  const uint8_t *content = session + whole.header;
  size_t peer_at = 0, peer_count = 0;
  bool has_facts = false;
  for (size_t at = 0; at < whole.content; at += part.header + part.content) {
    if (!next_element(content + at, whole.content - at, &part)) return 0;
    if (part.tag == application_data_tag) has_facts = true;
    if (part.tag != peer_tag) continue;
    peer_at = at;
    peer_count = part.header + part.content;
  }
  // A session that would lose its certificate is left unchanged.
  if (!has_facts || peer_count == 0) return 0;
  size_t left = whole.content - peer_count;
  uint8_t *next = target;
  *next++ = session[0];
  size_t more = left < 0x80 ? 0 : left < 0x100 ? 1 : left < 0x10000 ? 2 : 3;
  *next++ = more == 0 ? (uint8_t)left : (uint8_t)(0x80 | more);
  for (size_t index = more; index > 0; index--) *next++ = (uint8_t)(left >> 8 * (index - 1));
  memcpy(next, content, peer_at);
  memcpy(next + peer_at, content + peer_at + peer_count, left - peer_at);
  return (size_t)(next - target) + left;
}

// MARK: The sealing cipher

// OpenSSL passes the encoded session only to the cipher chosen by the callback, so the certificate is removed there.
// Apart from that the cipher is AES-256-CBC, which also opens tickets.

static EVP_CIPHER *plain_cipher, *sealing_cipher;
static CRYPTO_ONCE ciphers_once = CRYPTO_ONCE_STATIC_INIT;

static void *sealing_new(void *provider) {
  (void)provider;
  return EVP_CIPHER_CTX_new();
}

static void sealing_free(void *context) { EVP_CIPHER_CTX_free(context); }

static int sealing_init(
    void *context, const unsigned char *key, size_t key_count, const unsigned char *iv, size_t iv_count,
    const OSSL_PARAM parameters[]) {
  (void)parameters;
  if (key == NULL || iv == NULL || key_count != 32 || iv_count != 16) return 0;
  return EVP_EncryptInit_ex(context, plain_cipher, NULL, key, iv);
}

static int sealing_update(
    void *context, unsigned char *out, size_t *out_count, size_t out_size, const unsigned char *in, size_t in_count) {
  (void)out_size;
  int written = 0;
  uint8_t *shorter = OPENSSL_malloc(in_count);
  if (shorter == NULL) return 0;
  size_t count = apus_tls_session_without_peer(in, in_count, shorter);
  int done = count == 0 ? EVP_EncryptUpdate(context, out, &written, in, (int)in_count)
                        : EVP_EncryptUpdate(context, out, &written, shorter, (int)count);
  OPENSSL_clear_free(shorter, in_count);
  *out_count = (size_t)written;
  return done;
}

static int sealing_final(void *context, unsigned char *out, size_t *out_count, size_t out_size) {
  (void)out_size;
  int written = 0;
  int done = EVP_EncryptFinal_ex(context, out, &written);
  *out_count = (size_t)written;
  return done;
}

static int set_size(OSSL_PARAM parameters[], const char *name, size_t size) {
  OSSL_PARAM *parameter = OSSL_PARAM_locate(parameters, name);
  return parameter == NULL || OSSL_PARAM_set_size_t(parameter, size);
}

static int sealing_sizes(OSSL_PARAM parameters[]) {
  return set_size(parameters, OSSL_CIPHER_PARAM_KEYLEN, 32) && set_size(parameters, OSSL_CIPHER_PARAM_IVLEN, 16)
      && set_size(parameters, OSSL_CIPHER_PARAM_BLOCK_SIZE, 16);
}

static int sealing_context_sizes(void *context, OSSL_PARAM parameters[]) {
  (void)context;
  return sealing_sizes(parameters);
}

static const OSSL_PARAM *sealing_known_sizes(void *context, void *provider) {
  (void)context;
  (void)provider;
  static const OSSL_PARAM known[] = {
    OSSL_PARAM_size_t(OSSL_CIPHER_PARAM_KEYLEN, NULL), OSSL_PARAM_size_t(OSSL_CIPHER_PARAM_IVLEN, NULL),
    OSSL_PARAM_END};
  return known;
}

static const OSSL_DISPATCH sealing_functions[] = {
  {OSSL_FUNC_CIPHER_NEWCTX, (void (*)(void))sealing_new},
  {OSSL_FUNC_CIPHER_FREECTX, (void (*)(void))sealing_free},
  {OSSL_FUNC_CIPHER_ENCRYPT_INIT, (void (*)(void))sealing_init},
  {OSSL_FUNC_CIPHER_UPDATE, (void (*)(void))sealing_update},
  {OSSL_FUNC_CIPHER_FINAL, (void (*)(void))sealing_final},
  {OSSL_FUNC_CIPHER_GET_PARAMS, (void (*)(void))sealing_sizes},
  {OSSL_FUNC_CIPHER_GET_CTX_PARAMS, (void (*)(void))sealing_context_sizes},
  {OSSL_FUNC_CIPHER_GETTABLE_CTX_PARAMS, (void (*)(void))sealing_known_sizes},
  {0, NULL}};

static const OSSL_ALGORITHM sealing_algorithms[] = {
  {"APUS-TICKET", "provider=apus", sealing_functions, "sessions without certificates"}, {NULL, NULL, NULL, NULL}};

static const OSSL_ALGORITHM *query(void *provider, int operation, int *no_cache) {
  (void)provider;
  *no_cache = 0;
  return operation == OSSL_OP_CIPHER ? sealing_algorithms : NULL;
}

static const OSSL_DISPATCH provider_functions[] = {
  {OSSL_FUNC_PROVIDER_QUERY_OPERATION, (void (*)(void))query}, {0, NULL}};

static int start_provider(
    const OSSL_CORE_HANDLE *handle, const OSSL_DISPATCH *in, const OSSL_DISPATCH **out, void **provider) {
  (void)in;
  *provider = (void *)handle;
  *out = provider_functions;
  return 1;
}

// Lives as long as the process. In a library context of its own, where nothing else looks up a cipher.
static void fetch_ciphers(void) {
  plain_cipher = EVP_CIPHER_fetch(NULL, "AES-256-CBC", NULL);
  OSSL_LIB_CTX *library = OSSL_LIB_CTX_new();
  if (library == NULL || OSSL_PROVIDER_add_builtin(library, "apus", start_provider) != 1) return;
  if (OSSL_PROVIDER_load(library, "apus") != NULL) sealing_cipher = EVP_CIPHER_fetch(library, "APUS-TICKET", NULL);
}

bool apus_tls_ticket_prepare(
    EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac, const uint8_t *cipher_key, const uint8_t *mac_key, const uint8_t *iv,
    bool encrypts) {
  if (!CRYPTO_THREAD_run_once(&ciphers_once, fetch_ciphers) || plain_cipher == NULL || sealing_cipher == NULL)
    return false;
  OSSL_PARAM parameters[3];
  parameters[0] = OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, (void *)mac_key, 32);
  parameters[1] = OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, (char *)"SHA256", 0);
  parameters[2] = OSSL_PARAM_construct_end();
  return EVP_MAC_CTX_set_params(mac, parameters) == 1
      && EVP_CipherInit_ex(cipher, encrypts ? sealing_cipher : plain_cipher, NULL, cipher_key, iv, encrypts ? 1 : 0)
          == 1;
}
