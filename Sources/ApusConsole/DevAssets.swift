/// A file of the console.
package struct DevAsset: Sendable {
  /// The name in the folder Assets. Served at `/assets/NAME`, and `index.html` at `/`.
  package var name: String
  package var contentType: String
  package var bytes: [UInt8]
}

/// The console: a page of plain HTML, CSS and JavaScript modules, as bytes in the program.
///
/// It uses only the API of the service that served it, below `/api/v1` (`apus dev`) or `/v1` (`apus serve`).
package enum DevAssets {
  /// The content security policy for the console's files: scripts, styles and requests only of the same origin, and no
  /// text as markup.
  package static let contentSecurityPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    + "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

  /// All files of the folder Assets.
  package static let all = [
    asset("index.html", PackageResources.index_html),
    asset("base.css", PackageResources.base_css),
    asset("inbox.css", PackageResources.inbox_css),
    asset("service.css", PackageResources.service_css),
    asset("views.css", PackageResources.views_css),
    asset("favicon.svg", PackageResources.favicon_svg),
    asset("icons.svg", PackageResources.icons_svg),
    asset("api.js", PackageResources.api_js),
    asset("app.js", PackageResources.app_js),
    asset("apps.js", PackageResources.apps_js),
    asset("audit.js", PackageResources.audit_js),
    asset("certificates.js", PackageResources.certificates_js),
    asset("chart.js", PackageResources.chart_js),
    asset("compose.js", PackageResources.compose_js),
    asset("dev.js", PackageResources.dev_js),
    asset("devices.js", PackageResources.devices_js),
    asset("dom.js", PackageResources.dom_js),
    asset("effects.js", PackageResources.effects_js),
    asset("enrolments.js", PackageResources.enrolments_js),
    asset("events.js", PackageResources.events_js),
    asset("faults.js", PackageResources.faults_js),
    asset("fleet.js", PackageResources.fleet_js),
    asset("inbox.js", PackageResources.inbox_js),
    asset("json.js", PackageResources.json_js),
    asset("keys.js", PackageResources.keys_js),
    asset("ledger.js", PackageResources.ledger_js),
    asset("list.js", PackageResources.list_js),
    asset("overview.js", PackageResources.overview_js),
    asset("pane.js", PackageResources.pane_js),
    asset("phone.js", PackageResources.phone_js),
    asset("push.js", PackageResources.push_js),
    asset("pushes.js", PackageResources.pushes_js),
    asset("pushtypes.js", PackageResources.pushtypes_js),
    asset("senders.js", PackageResources.senders_js),
    asset("service.js", PackageResources.service_js),
    asset("signin.js", PackageResources.signin_js),
    asset("status.js", PackageResources.status_js),
    asset("text.js", PackageResources.text_js),
    asset("texts.js", PackageResources.texts_js),
    asset("tokens.js", PackageResources.tokens_js),
    asset("violations.js", PackageResources.violations_js),
  ]

  /// The same, with a page marked as that of `apus serve`. Otherwise the page would first ask the API of `apus dev`,
  /// and the 404 would be an error in the browser's log.
  package static let ofService = all.map { asset in
    guard asset.name == "index.html" else { return asset }
    var page = asset
    let text = String(decoding: asset.bytes, as: UTF8.self)
    page.bytes = Array(
      text.replacing("<html ", with: "<html data-kind=\"service\" ", maxReplacements: 1).utf8)
    return page
  }

  private static let byName = Dictionary(uniqueKeysWithValues: all.map { ($0.name, $0) })

  package static func asset(_ name: String) -> DevAsset? { byName[name] }

  private static func asset(_ name: String, _ bytes: [UInt8]) -> DevAsset {
    DevAsset(name: name, contentType: contentType(of: name), bytes: bytes)
  }

  private static func contentType(of name: String) -> String {
    if name.hasSuffix(".html") { return "text/html; charset=utf-8" }
    if name.hasSuffix(".css") { return "text/css; charset=utf-8" }
    return name.hasSuffix(".svg") ? "image/svg+xml" : "text/javascript; charset=utf-8"
  }
}
