import ApusConsole
package import ApusWeb

extension WebPage {
  /// The console of `apus dev`.
  package static let console = page(of: DevAssets.all)
  /// The same page for `apus serve`.
  package static let serviceConsole = page(of: DevAssets.ofService)

  private static func page(of assets: [DevAsset]) -> WebPage {
    WebPage(
      assets.map { WebAsset(name: $0.name, contentType: $0.contentType, bytes: $0.bytes) },
      contentSecurityPolicy: DevAssets.contentSecurityPolicy)
  }
}
