#include "CCurl.h"

#include <dlfcn.h>

static struct {
  CURLcode (*global_init)(long);
  CURL *(*easy_init)(void);
  void (*easy_cleanup)(CURL *);
  CURLcode (*easy_setopt)(CURL *, CURLoption, ...);
  CURLcode (*easy_getinfo)(CURL *, CURLINFO, ...);
  CURLcode (*easy_perform)(CURL *);
  const char *(*easy_strerror)(CURLcode);
  struct curl_slist *(*slist_append)(struct curl_slist *, const char *);
  void (*slist_free_all)(struct curl_slist *);
} curl;

const char *ccurl_load(void) {
  // The name of its interface of 2006, which has not changed incompatibly since. It stays loaded.
  void *library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) return dlerror();
#define LOAD(name) \
  if ((*(void **)&curl.name = dlsym(library, "curl_" #name)) == NULL) return dlerror()
  LOAD(global_init);
  LOAD(easy_init);
  LOAD(easy_cleanup);
  LOAD(easy_setopt);
  LOAD(easy_getinfo);
  LOAD(easy_perform);
  LOAD(easy_strerror);
  LOAD(slist_append);
  LOAD(slist_free_all);
#undef LOAD
  CURLcode code = curl.global_init(CURL_GLOBAL_DEFAULT);
  return code == CURLE_OK ? NULL : curl.easy_strerror(code);
}

CURL *ccurl_new(void) { return curl.easy_init(); }

void ccurl_free(CURL *handle) { curl.easy_cleanup(handle); }

CURLcode ccurl_set_number(CURL *handle, CURLoption option, long value) {
  return curl.easy_setopt(handle, option, value);
}

CURLcode ccurl_set_text(CURL *handle, CURLoption option, const char *value) {
  return curl.easy_setopt(handle, option, value);
}

CURLcode ccurl_set_list(CURL *handle, CURLoption option, struct curl_slist *value) {
  return curl.easy_setopt(handle, option, value);
}

CURLcode ccurl_set_error_buffer(CURL *handle, char *buffer) {
  return curl.easy_setopt(handle, CURLOPT_ERRORBUFFER, buffer);
}

CURLcode ccurl_set_writer(CURL *handle, ccurl_write write, void *context) {
  CURLcode code = curl.easy_setopt(handle, CURLOPT_WRITEFUNCTION, write);
  return code != CURLE_OK ? code : curl.easy_setopt(handle, CURLOPT_WRITEDATA, context);
}

CURLcode ccurl_perform(CURL *handle) { return curl.easy_perform(handle); }

long ccurl_status(CURL *handle) {
  long status = 0;
  CURLcode code = curl.easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
  return code == CURLE_OK ? status : 0;
}

const char *ccurl_explain(CURLcode code) { return curl.easy_strerror(code); }

struct curl_slist *ccurl_list_append(struct curl_slist *list, const char *line) {
  return curl.slist_append(list, line);
}

void ccurl_list_free(struct curl_slist *list) { curl.slist_free_all(list); }
