import Foundation

extension Installation {
  /// Sends a notification to a device with `apus send`.
  ///
  /// - Parameters:
  ///   - n: The member "n" of the payload.
  ///   - lifetimeSeconds: How long it is stored for an offline device; nil means not at all.
  func send(_ n: Int, to token: String, lifetimeSeconds: Int? = nil) throws {
    let expiration = lifetimeSeconds.map { Int(Date().timeIntervalSince1970) + $0 } ?? 0
    try Programs.run(
      apus,
      [
        "send", "--to", "localhost:\(providerPort)", "--data", directory.path, "--token", token,
        "--expiration", "\(expiration)", "--payload",
        #"{"aps":{"alert":"Number \#(n)"},"n":\#(n)}"#, "--json",
      ])
  }

  /// Waits until the service knows that the app was removed from the device.
  func waitUntilUnregistered(_ token: String) throws {
    for _ in 0..<200 {
      do {
        try send(0, to: token)
      } catch let trouble as Trouble where trouble.description.contains("Unregistered") {
        return
      }
    }
    throw Trouble("the service still accepts notifications for \(token)")
  }
}
