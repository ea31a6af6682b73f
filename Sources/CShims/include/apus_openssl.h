// OpenSSL macros as functions.
#pragma once

#include <openssl/ssl.h>
