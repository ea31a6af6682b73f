import Foundation

extension Installation {
  /// Sends a notification to a device with `apus send`.
  ///
  /// - Parameters:
  ///   - n: The member of the payload.
  ///   - lifetimeSeconds: For how long it is kept for an absent device; not at all without.
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

  /// Waits until the service has heard from the device that the app is gone.
  func waitUntilUnregistered(_ token: String) throws {
    for _ in 0..<200 {
      do {
        try send(0, to: token)
      } catch let trouble as Trouble where trouble.description.contains("Unregistered") {
        return
      }
    }
    throw Trouble("the service still takes notifications for \(token)")
  }
}
