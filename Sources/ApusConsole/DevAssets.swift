internal import ApusEmbedded

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
  package static let all = EmbeddedFile.console.map { file in
    DevAsset(name: file.name, contentType: contentType(of: file.name), bytes: file.bytes)
  }

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

  private static func contentType(of name: String) -> String {
    if name.hasSuffix(".html") { return "text/html; charset=utf-8" }
    if name.hasSuffix(".css") { return "text/css; charset=utf-8" }
    return name.hasSuffix(".svg") ? "image/svg+xml" : "text/javascript; charset=utf-8"
  }
}
