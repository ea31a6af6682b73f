import ApusConsole
package import ApusWeb

extension WebPage {
  /// The console, whichever service shows it.
  package static let console = WebPage(
    DevAssets.all.map {
      WebAsset(name: $0.name, contentType: $0.contentType, bytes: $0.bytes)
    }, contentSecurityPolicy: DevAssets.contentSecurityPolicy)
}
