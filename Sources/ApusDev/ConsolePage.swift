import ApusConsole
package import ApusWeb

extension WebPage {
  /// The console, as `apus dev` shows it.
  package static let console = page(of: DevAssets.all)
  /// The same page, as `apus serve` shows it.
  package static let serviceConsole = page(of: DevAssets.ofService)

  private static func page(of assets: [DevAsset]) -> WebPage {
    WebPage(
      assets.map { WebAsset(name: $0.name, contentType: $0.contentType, bytes: $0.bytes) },
      contentSecurityPolicy: DevAssets.contentSecurityPolicy)
  }
}
