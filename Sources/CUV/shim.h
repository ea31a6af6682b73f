#include <pthread.h>
#include <sys/socket.h>
#include <uv.h>

// glibc declares these two only under _GNU_SOURCE, which Swift's Glibc module is built without. The asm labels bind
// names of our own to the same symbols, so that neither declaration can contradict glibc's.

/// accept4(2).
extern int cuv_accept4(int descriptor, struct sockaddr *address, socklen_t *length, int flags)
    __asm__("accept4");

/// pthread_setname_np(3): at most 15 bytes and the terminator.
extern int cuv_pthread_setname(pthread_t thread, const char *name) __asm__("pthread_setname_np");
