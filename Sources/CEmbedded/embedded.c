// As C, because the Swift compiler takes half a minute for the same bytes as array literals.
#include "embedded.h"

// `#embed` is of C23. This compiler has it in every mode, with this warning.
#pragma clang diagnostic ignored "-Wc23-extensions"

#define FILE_OF(name, symbol) {name, symbol, sizeof symbol}

static const unsigned char index_html[] = {
#embed "../ApusConsole/Assets/index.html"
};

static const unsigned char base_css[] = {
#embed "../ApusConsole/Assets/base.css"
};

static const unsigned char inbox_css[] = {
#embed "../ApusConsole/Assets/inbox.css"
};

static const unsigned char service_css[] = {
#embed "../ApusConsole/Assets/service.css"
};

static const unsigned char views_css[] = {
#embed "../ApusConsole/Assets/views.css"
};

static const unsigned char favicon_svg[] = {
#embed "../ApusConsole/Assets/favicon.svg"
};

static const unsigned char icons_svg[] = {
#embed "../ApusConsole/Assets/icons.svg"
};

static const unsigned char activities_js[] = {
#embed "../ApusConsole/Assets/activities.js"
};

static const unsigned char api_js[] = {
#embed "../ApusConsole/Assets/api.js"
};

static const unsigned char app_js[] = {
#embed "../ApusConsole/Assets/app.js"
};

static const unsigned char apps_js[] = {
#embed "../ApusConsole/Assets/apps.js"
};

static const unsigned char audit_js[] = {
#embed "../ApusConsole/Assets/audit.js"
};

static const unsigned char certificates_js[] = {
#embed "../ApusConsole/Assets/certificates.js"
};

static const unsigned char channels_js[] = {
#embed "../ApusConsole/Assets/channels.js"
};

static const unsigned char chart_js[] = {
#embed "../ApusConsole/Assets/chart.js"
};

static const unsigned char compose_js[] = {
#embed "../ApusConsole/Assets/compose.js"
};

static const unsigned char dev_js[] = {
#embed "../ApusConsole/Assets/dev.js"
};

static const unsigned char device_js[] = {
#embed "../ApusConsole/Assets/device.js"
};
static const unsigned char devices_js[] = {
#embed "../ApusConsole/Assets/devices.js"
};

static const unsigned char dom_js[] = {
#embed "../ApusConsole/Assets/dom.js"
};

static const unsigned char effects_js[] = {
#embed "../ApusConsole/Assets/effects.js"
};

static const unsigned char enrolments_js[] = {
#embed "../ApusConsole/Assets/enrolments.js"
};

static const unsigned char events_js[] = {
#embed "../ApusConsole/Assets/events.js"
};

static const unsigned char faults_js[] = {
#embed "../ApusConsole/Assets/faults.js"
};

static const unsigned char fleet_js[] = {
#embed "../ApusConsole/Assets/fleet.js"
};

static const unsigned char images_js[] = {
#embed "../ApusConsole/Assets/images.js"
};

static const unsigned char inbox_js[] = {
#embed "../ApusConsole/Assets/inbox.js"
};

static const unsigned char json_js[] = {
#embed "../ApusConsole/Assets/json.js"
};

static const unsigned char keys_js[] = {
#embed "../ApusConsole/Assets/keys.js"
};

static const unsigned char ledger_js[] = {
#embed "../ApusConsole/Assets/ledger.js"
};

static const unsigned char list_js[] = {
#embed "../ApusConsole/Assets/list.js"
};

static const unsigned char overview_js[] = {
#embed "../ApusConsole/Assets/overview.js"
};

static const unsigned char pane_js[] = {
#embed "../ApusConsole/Assets/pane.js"
};

static const unsigned char phone_js[] = {
#embed "../ApusConsole/Assets/phone.js"
};

static const unsigned char push_js[] = {
#embed "../ApusConsole/Assets/push.js"
};

static const unsigned char pushes_js[] = {
#embed "../ApusConsole/Assets/pushes.js"
};

static const unsigned char pushtypes_js[] = {
#embed "../ApusConsole/Assets/pushtypes.js"
};

static const unsigned char senders_js[] = {
#embed "../ApusConsole/Assets/senders.js"
};

static const unsigned char service_js[] = {
#embed "../ApusConsole/Assets/service.js"
};

static const unsigned char signin_js[] = {
#embed "../ApusConsole/Assets/signin.js"
};

static const unsigned char status_js[] = {
#embed "../ApusConsole/Assets/status.js"
};

static const unsigned char text_js[] = {
#embed "../ApusConsole/Assets/text.js"
};

static const unsigned char texts_js[] = {
#embed "../ApusConsole/Assets/texts.js"
};

static const unsigned char tokens_js[] = {
#embed "../ApusConsole/Assets/tokens.js"
};

static const unsigned char violations_js[] = {
#embed "../ApusConsole/Assets/violations.js"
};

static const unsigned char webhooks_js[] = {
#embed "../ApusConsole/Assets/webhooks.js"
};

static const embedded_file console[] = {
  FILE_OF("index.html", index_html),
  FILE_OF("base.css", base_css),
  FILE_OF("inbox.css", inbox_css),
  FILE_OF("service.css", service_css),
  FILE_OF("views.css", views_css),
  FILE_OF("favicon.svg", favicon_svg),
  FILE_OF("icons.svg", icons_svg),
  FILE_OF("activities.js", activities_js),
  FILE_OF("api.js", api_js),
  FILE_OF("app.js", app_js),
  FILE_OF("apps.js", apps_js),
  FILE_OF("audit.js", audit_js),
  FILE_OF("certificates.js", certificates_js),
  FILE_OF("channels.js", channels_js),
  FILE_OF("chart.js", chart_js),
  FILE_OF("compose.js", compose_js),
  FILE_OF("dev.js", dev_js),
  FILE_OF("device.js", device_js),
  FILE_OF("devices.js", devices_js),
  FILE_OF("dom.js", dom_js),
  FILE_OF("effects.js", effects_js),
  FILE_OF("enrolments.js", enrolments_js),
  FILE_OF("events.js", events_js),
  FILE_OF("faults.js", faults_js),
  FILE_OF("fleet.js", fleet_js),
  FILE_OF("images.js", images_js),
  FILE_OF("inbox.js", inbox_js),
  FILE_OF("json.js", json_js),
  FILE_OF("keys.js", keys_js),
  FILE_OF("ledger.js", ledger_js),
  FILE_OF("list.js", list_js),
  FILE_OF("overview.js", overview_js),
  FILE_OF("pane.js", pane_js),
  FILE_OF("phone.js", phone_js),
  FILE_OF("push.js", push_js),
  FILE_OF("pushes.js", pushes_js),
  FILE_OF("pushtypes.js", pushtypes_js),
  FILE_OF("senders.js", senders_js),
  FILE_OF("service.js", service_js),
  FILE_OF("signin.js", signin_js),
  FILE_OF("status.js", status_js),
  FILE_OF("text.js", text_js),
  FILE_OF("texts.js", texts_js),
  FILE_OF("tokens.js", tokens_js),
  FILE_OF("violations.js", violations_js),
  FILE_OF("webhooks.js", webhooks_js),
};

const embedded_file *const embedded_console = console;
const size_t embedded_console_count = sizeof console / sizeof console[0];

static const unsigned char admin_api[] = {
#embed "../ApusAdmin/openapi.json"
};

const embedded_file embedded_admin_api = FILE_OF("openapi.json", admin_api);

static const unsigned char dev_api[] = {
#embed "../ApusDev/API/openapi.json"
};

const embedded_file embedded_dev_api = FILE_OF("openapi.json", dev_api);

static const unsigned char postgresql_sql[] = {
#embed "../ApusStore/Postgres/postgresql.sql"
};

const embedded_file embedded_postgresql = FILE_OF("postgresql.sql", postgresql_sql);
