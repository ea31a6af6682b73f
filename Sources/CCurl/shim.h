// Its type checks are macros around the functions that are wrapped here.
#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>

// libcurl takes options and returns information through "...", which Swift cannot call.

static inline CURLcode ccurl_set_number(CURL *handle, CURLoption option, long value) {
  return curl_easy_setopt(handle, option, value);
}

static inline CURLcode ccurl_set_text(CURL *handle, CURLoption option, const char *value) {
  return curl_easy_setopt(handle, option, value);
}

static inline CURLcode ccurl_set_list(CURL *handle, CURLoption option, struct curl_slist *value) {
  return curl_easy_setopt(handle, option, value);
}

/// The buffer for error messages: CURL_ERROR_SIZE bytes, which must outlive the handle's use.
static inline CURLcode ccurl_set_error_buffer(CURL *handle, char *buffer) {
  return curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, buffer);
}

typedef size_t (*ccurl_write)(char *bytes, size_t size, size_t count, void *context);

/// The callback for the response's content.
static inline CURLcode ccurl_set_writer(CURL *handle, ccurl_write write, void *context) {
  CURLcode code = curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, write);
  return code != CURLE_OK ? code : curl_easy_setopt(handle, CURLOPT_WRITEDATA, context);
}

/// The status of the response; 0 if there is none.
static inline long ccurl_status(CURL *handle) {
  long status = 0;
  return curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status) == CURLE_OK ? status : 0;
}
