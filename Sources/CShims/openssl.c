#include "apus_openssl.h"

// A process may exit while a thread of a client or device is ending. OpenSSL's own exit() handler frees what an ending
// thread still uses: about one in a thousand providers crashed after its last response. The system frees all memory
// anyway. OpenSSL follows its first initialisation, so this runs before main().
__attribute__((constructor)) static void keep_openssl_until_the_end(void) {
  OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
}
