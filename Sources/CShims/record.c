#include "apus_record.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

struct suite {
  const char *cipher;
  size_t key_bytes;
  size_t secret_bytes;
};

// RFC 8446, appendix B.4; RFC 5116, sections 5.1 and 5.2; RFC 8439, section 2.8.
static const struct suite suites[apus_suites] = {
    {"AES-128-GCM", 16, 32},
    {"AES-256-GCM", 32, 48},
    {"ChaCha20-Poly1305", 32, 32},
};

void apus_wipe(void *target, size_t count) { OPENSSL_cleanse(target, count); }

bool apus_expand_label(apus_suite suite, const uint8_t *secret, const char *label, uint8_t *target, size_t count) {
  // struct HkdfLabel { uint16 length; opaque label<7..255> = "tls13 " + label; opaque context<0..255>; }, and the
  // number of HKDF-Expand's only block (RFC 5869, section 2.3).
  uint8_t info[40];
  size_t label_count = strlen(label), used = 0;
  size_t secret_count = suites[suite].secret_bytes;
  if (label_count > 20 || count > secret_count) return false;
  info[used++] = (uint8_t)(count >> 8);
  info[used++] = (uint8_t)count;
  info[used++] = (uint8_t)(6 + label_count);
  memcpy(info + used, "tls13 ", 6);
  used += 6;
  memcpy(info + used, label, label_count);
  used += label_count;
  info[used++] = 0;
  info[used++] = 1;
  uint8_t block[EVP_MAX_MD_SIZE];
  unsigned int block_count = 0;
  bool done =
      HMAC(secret_count == 48 ? EVP_sha384() : EVP_sha256(), secret, (int)secret_count, info, used, block, &block_count)
          != NULL
      && block_count == secret_count;
  if (done) memcpy(target, block, count);
  OPENSSL_cleanse(block, sizeof block);
  return done;
}

// RFC 8446, section 7.3.
static bool derive(apus_record_keys *keys, apus_suite suite) {
  keys->sequence = 0;
  return apus_expand_label(suite, keys->secret, "key", keys->key, suites[suite].key_bytes)
      && apus_expand_label(suite, keys->secret, "iv", keys->iv, sizeof keys->iv);
}

bool apus_keys_begin(apus_record_keys *keys, apus_suite suite, const apus_traffic *traffic, bool of_server) {
  memcpy(keys->secret, of_server ? traffic->server_secret : traffic->client_secret, suites[suite].secret_bytes);
  bool done = derive(keys, suite);
  keys->sequence = of_server ? traffic->server_records : traffic->client_records;
  return done;
}

bool apus_keys_update(apus_record_keys *keys, apus_suite suite) {
  uint8_t next[apus_secret_bytes];
  bool done = apus_expand_label(suite, keys->secret, "traffic upd", next, suites[suite].secret_bytes);
  if (done) memcpy(keys->secret, next, suites[suite].secret_bytes);
  OPENSSL_cleanse(next, sizeof next);
  return done && derive(keys, suite);
}

// sequence, iv, secret, and the key if it fits after them.
enum { packed_iv = 8, packed_secret = 20 };

static size_t packed_key(apus_suite suite) {
  size_t place = packed_secret + suites[suite].secret_bytes;
  return place + suites[suite].key_bytes <= apus_packed_bytes ? place : 0;
}

void apus_keys_pack(const apus_record_keys *keys, apus_suite suite, uint8_t *target) {
  memcpy(target, &keys->sequence, sizeof keys->sequence);
  memcpy(target + packed_iv, keys->iv, sizeof keys->iv);
  memcpy(target + packed_secret, keys->secret, suites[suite].secret_bytes);
  size_t place = packed_key(suite);
  if (place > 0) memcpy(target + place, keys->key, suites[suite].key_bytes);
}

bool apus_keys_unpack(apus_record_keys *keys, apus_suite suite, const uint8_t *source) {
  memcpy(&keys->sequence, source, sizeof keys->sequence);
  memcpy(keys->iv, source + packed_iv, sizeof keys->iv);
  memcpy(keys->secret, source + packed_secret, suites[suite].secret_bytes);
  size_t place = packed_key(suite);
  if (place == 0) return apus_expand_label(suite, keys->secret, "key", keys->key, suites[suite].key_bytes);
  memcpy(keys->key, source + place, suites[suite].key_bytes);
  return true;
}

struct apus_aead {
  EVP_CIPHER_CTX *context;
  size_t key_bytes;
  bool seals;
  bool has_key;
  uint8_t key[32];
};

apus_aead *apus_aead_new(apus_suite suite, bool seals) {
  apus_aead *aead = OPENSSL_zalloc(sizeof *aead);
  EVP_CIPHER *cipher = EVP_CIPHER_fetch(NULL, suites[suite].cipher, NULL);
  if (aead != NULL) aead->context = EVP_CIPHER_CTX_new();
  bool done = aead != NULL && cipher != NULL && aead->context != NULL
      && EVP_CipherInit_ex2(aead->context, cipher, NULL, NULL, seals ? 1 : 0, NULL) == 1;
  // The context retains it.
  EVP_CIPHER_free(cipher);
  if (!done) {
    apus_aead_free(aead);
    return NULL;
  }
  aead->key_bytes = suites[suite].key_bytes;
  aead->seals = seals;
  return aead;
}

void apus_aead_free(apus_aead *aead) {
  if (aead == NULL) return;
  EVP_CIPHER_CTX_free(aead->context);
  OPENSSL_clear_free(aead, sizeof *aead);
}

void apus_aead_forget(apus_aead *aead) {
  if (!aead->has_key) return;
  OPENSSL_cleanse(aead->key, sizeof aead->key);
  aead->has_key = false;
  // Overwrites the key schedule with that of a constant key.
  EVP_CipherInit_ex2(aead->context, NULL, aead->key, NULL, aead->seals ? 1 : 0, NULL);
}

/// Sets the record's nonce, and the key if the previous connection had another one. A key schedule costs as much as a
/// small record, and most turns have several records of one connection.
static bool prepare(apus_aead *aead, const apus_record_keys *keys, OSSL_PARAM *parameters) {
  // RFC 8446, section 5.3: the sequence number, padded to the left, over the IV.
  uint8_t nonce[12];
  memcpy(nonce, keys->iv, sizeof nonce);
  for (int index = 0; index < 8; index++) nonce[4 + index] ^= (uint8_t)(keys->sequence >> (56 - 8 * index));
  const uint8_t *key = NULL;
  if (!aead->has_key || CRYPTO_memcmp(aead->key, keys->key, aead->key_bytes) != 0) {
    memcpy(aead->key, keys->key, aead->key_bytes);
    aead->has_key = true;
    key = keys->key;
  }
  return EVP_CipherInit_ex2(aead->context, NULL, key, nonce, aead->seals ? 1 : 0, parameters) == 1;
}

bool apus_aead_seal(apus_aead *aead, apus_record_keys *keys, const uint8_t *header, uint8_t *text, size_t count) {
  OSSL_PARAM parameters[2];
  parameters[0] = OSSL_PARAM_construct_octet_string(OSSL_CIPHER_PARAM_AEAD_TAG, text + count, apus_tag_bytes);
  parameters[1] = OSSL_PARAM_construct_end();
  int written = 0, rest = 0;
  bool done = prepare(aead, keys, NULL) && EVP_EncryptUpdate(aead->context, NULL, &written, header, 5) == 1
      && EVP_EncryptUpdate(aead->context, text, &written, text, (int)count) == 1
      && EVP_EncryptFinal_ex(aead->context, text + written, &rest) == 1 && (size_t)(written + rest) == count
      && EVP_CIPHER_CTX_get_params(aead->context, parameters) == 1;
  keys->sequence += 1;
  return done;
}

bool apus_aead_open(
    apus_aead *aead, apus_record_keys *keys, const uint8_t *header, const uint8_t *source, size_t count,
    uint8_t *target) {
  if (count <= apus_tag_bytes) return false;
  size_t text_count = count - apus_tag_bytes;
  OSSL_PARAM parameters[2];
  parameters[0] =
      OSSL_PARAM_construct_octet_string(OSSL_CIPHER_PARAM_AEAD_TAG, (void *)(source + text_count), apus_tag_bytes);
  parameters[1] = OSSL_PARAM_construct_end();
  int written = 0, rest = 0;
  bool done = prepare(aead, keys, parameters) && EVP_DecryptUpdate(aead->context, NULL, &written, header, 5) == 1
      && EVP_DecryptUpdate(aead->context, target, &written, source, (int)text_count) == 1
      && EVP_DecryptFinal_ex(aead->context, target + written, &rest) == 1 && (size_t)(written + rest) == text_count;
  keys->sequence += 1;
  return done;
}

// The results of a handshake.

static int traffic_index = -1;
static CRYPTO_ONCE traffic_once = CRYPTO_ONCE_STATIC_INIT;

static void make_traffic_index(void) { traffic_index = SSL_get_ex_new_index(0, NULL, NULL, NULL, NULL); }

static apus_traffic *traffic_of(const SSL *ssl) {
  return traffic_index < 0 ? NULL : SSL_get_ex_data(ssl, traffic_index);
}

static int nibble(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  return -1;
}

/// The bytes of the last field of a line; 0 if there are too many, or they are not hexadecimal digits.
static size_t read_secret(const char *line, uint8_t *target) {
  const char *digits = strrchr(line, ' ');
  if (digits == NULL) return 0;
  size_t count = 0;
  for (digits += 1; digits[0] != 0; digits += 2) {
    int high = nibble(digits[0]), low = digits[1] == 0 ? -1 : nibble(digits[1]);
    if (high < 0 || low < 0 || count == apus_secret_bytes) return 0;
    target[count++] = (uint8_t)(high << 4 | low);
  }
  return count;
}

// A line in the key log format: a label, the client's random, the secret. OpenSSL writes one when it changes to the
// keys of that secret.
static void note_secret(const SSL *ssl, const char *line) {
  apus_traffic *traffic = traffic_of(ssl);
  if (traffic == NULL) return;
  if (strncmp(line, "CLIENT_TRAFFIC_SECRET_0 ", 24) == 0) {
    traffic->client_count = read_secret(line, traffic->client_secret);
    traffic->client_records = 0;
  } else if (strncmp(line, "SERVER_TRAFFIC_SECRET_0 ", 24) == 0) {
    traffic->server_count = read_secret(line, traffic->server_secret);
    traffic->server_records = 0;
  }
}

static void note_message(
    int writes, int version, int content, const void *bytes, size_t count, SSL *ssl, void *argument) {
  (void)version;
  (void)argument;
  if (content != SSL3_RT_HEADER && content != SSL3_RT_HANDSHAKE) return;
  apus_traffic *traffic = traffic_of(ssl);
  if (traffic == NULL) return;
  if (content == SSL3_RT_HEADER) {
    if ((writes != 0) == traffic->is_server) {
      traffic->server_records += 1;
    } else {
      traffic->client_records += 1;
    }
  } else if (count > 0 && ((const uint8_t *)bytes)[0] == SSL3_MT_KEY_UPDATE) {
    traffic->is_stale = true;
  }
}

void apus_traffic_watch(SSL_CTX *context) {
  SSL_CTX_set_keylog_callback(context, note_secret);
  SSL_CTX_set_msg_callback(context, note_message);
}

bool apus_traffic_attach(SSL *ssl, apus_traffic *traffic) {
  if (!CRYPTO_THREAD_run_once(&traffic_once, make_traffic_index) || traffic_index < 0) return false;
  if (traffic == NULL) SSL_set_msg_callback(ssl, NULL);
  return SSL_set_ex_data(ssl, traffic_index, traffic) == 1;
}
