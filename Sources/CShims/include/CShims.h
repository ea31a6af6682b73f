// C macros and callbacks that Swift cannot import, one header for each library.
#pragma once

#include "apus_openssl.h"
#include "apus_tls.h"
#include "apus_x509.h"
#include "apus_record.h"
