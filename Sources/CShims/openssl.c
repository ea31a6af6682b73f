#include "apus_openssl.h"
