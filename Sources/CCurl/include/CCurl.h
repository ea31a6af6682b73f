#pragma once

// Its type checks are macros around the functions that are wrapped here.
#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>
#include <stddef.h>

// libcurl, loaded at its first use: it brings over twenty libraries, a third of the dynamic linker's work at a start,
// although most processes never call it. Its functions take options and return information through "...", which Swift
// cannot call.

/// Loads and initializes libcurl. Call it once, before every other function. NULL: it is ready; otherwise why not, in
/// static memory.
const char *ccurl_load(void);

/// A handle for one request at a time; NULL: out of memory.
CURL *ccurl_new(void);
void ccurl_free(CURL *handle);

CURLcode ccurl_set_number(CURL *handle, CURLoption option, long value);
CURLcode ccurl_set_text(CURL *handle, CURLoption option, const char *value);
CURLcode ccurl_set_list(CURL *handle, CURLoption option, struct curl_slist *value);
/// The buffer for error messages: CURL_ERROR_SIZE bytes, which must outlive the handle's use.
CURLcode ccurl_set_error_buffer(CURL *handle, char *buffer);

typedef size_t (*ccurl_write)(char *bytes, size_t size, size_t count, void *context);

/// The callback for the response's content.
CURLcode ccurl_set_writer(CURL *handle, ccurl_write write, void *context);

/// Sends the request and blocks until its response is complete.
CURLcode ccurl_perform(CURL *handle);
/// The status of the response; 0 if there is none.
long ccurl_status(CURL *handle);
/// What went wrong, in static memory.
const char *ccurl_explain(CURLcode code);

/// Appends a copy of a line; NULL: out of memory.
struct curl_slist *ccurl_list_append(struct curl_slist *list, const char *line);
void ccurl_list_free(struct curl_slist *list);
