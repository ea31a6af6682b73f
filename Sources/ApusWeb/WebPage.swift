/// A file of a page.
package struct WebAsset: Sendable {
  package var name: String
  package var contentType: String
  package var bytes: [UInt8]

  package init(name: String, contentType: String, bytes: [UInt8]) {
    self.name = name
    self.contentType = contentType
    self.bytes = bytes
  }
}

/// A web page: its files and their content security policy.
package struct WebPage: Sendable {
  private let assets: [String: WebAsset]
  private let contentSecurityPolicy: String

  package init(_ assets: [WebAsset], contentSecurityPolicy: String) {
    self.assets = Dictionary(uniqueKeysWithValues: assets.map { ($0.name, $0) })
    self.contentSecurityPolicy = contentSecurityPolicy
  }

  /// The file with this name, by default the page itself; nil if it does not exist.
  package func answer(_ name: String = "index.html") -> WebResponse? {
    guard let asset = assets[name] else { return nil }
    var response = WebResponse(200, contentType: asset.contentType, body: .bytes(asset.bytes))
    response.headers = [
      WebField("Content-Security-Policy", contentSecurityPolicy),
      // A cached page of an older program must not use this program's API.
      WebField("Cache-Control", "no-cache"),
    ]
    return response
  }
}
