#include "apus_openssl.h"

// A process may end while a thread of a client or device ends. OpenSSL's own handler of exit() frees what the end of a
// thread still looks at: about one in a thousand senders crashed after its last answer. The system takes all of it back
// anyway. What is said first holds, so this runs before main().
__attribute__((constructor)) static void keep_openssl_until_the_end(void) {
  OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
}
