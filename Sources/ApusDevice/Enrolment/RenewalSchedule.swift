package import ApusTrust

/// The identity whose certificate is to be renewed, and how.
package struct RenewalPlan: Sendable {
  package var certificate: Certificate
  package var key: PrivateKey
  /// Whether each new certificate is for a new key.
  package var makesNewKey: Bool

  package init(certificate: Certificate, key: PrivateKey, makesNewKey: Bool) {
    self.certificate = certificate
    self.key = key
    self.makesNewKey = makesNewKey
  }

  /// Nil where nothing is to be renewed, or the identity cannot be read.
  package init?(_ identity: DeviceIdentity, _ renewal: DeviceRenewal) {
    guard renewal != .never, let certificate = try? Certificate(pem: identity.certificatePEM),
      let key = try? PrivateKey(pem: identity.keyPEM)
    else { return nil }
    self.init(certificate: certificate, key: key, makesNewKey: renewal == .newKey)
  }
}

/// When a device asks for its next certificate.
///
/// The service issues one in the last third of the old one's life. Devices of one delivery do not ask all on one day:
/// each has a moment of its own in the first half of that third. The service's clock counts, as it says the time with
/// each connection; the device's may be anywhere.
package struct RenewalSchedule: Sendable, Hashable {
  /// Unix milliseconds from which on the device asks.
  package private(set) var dueUnixMilliseconds: Int64
  /// The same on the device's own clock, which does not go backwards; nil without a connection, and while the service
  /// is asked.
  package private(set) var dueMilliseconds: UInt64?

  /// Milliseconds until the service is asked again, where it says nothing about it or asks for haste.
  package static let leastRetryMilliseconds: UInt64 = 60_000
  /// The same of one that says never; a connection that ends asks anew anyway.
  package static let mostRetryMilliseconds: UInt64 = 86_400_000

  /// - Parameters:
  ///   - notBefore: Of the certificate, Unix seconds.
  ///   - notAfter: Likewise.
  ///   - spread: Where in the first half of the last third, in thousandths.
  package init(notBefore: Int64, notAfter: Int64, spread: Int64) {
    let life = max(0, notAfter - notBefore)
    dueUnixMilliseconds = (notAfter - life / 3) * 1000 + life / 6 * min(max(spread, 0), 1000)
  }

  package mutating func connected(serverMilliseconds: UInt64, nowMilliseconds: UInt64) {
    let wait = dueUnixMilliseconds - Int64(clamping: serverMilliseconds)
    dueMilliseconds = nowMilliseconds + UInt64(max(0, wait))
  }

  /// The service wants to be asked within `withinSeconds`: at the device's own moment of it (`spread` in thousandths),
  /// and in a day at the latest. Says nothing new where it is being asked, or will be sooner.
  package mutating func advised(
    withinSeconds: UInt32, spread: Int64, nowMilliseconds: UInt64
  ) {
    guard let due = dueMilliseconds else { return }
    let window = min(UInt64(withinSeconds) * 1000, Self.mostRetryMilliseconds)
    dueMilliseconds = min(
      due, nowMilliseconds + window / 1000 * UInt64(min(max(spread, 0), 1000)))
  }

  package mutating func disconnected() { dueMilliseconds = nil }

  /// Whether to ask now; if so, it is not said again before `refused` or the next connection.
  package mutating func takeDue(nowMilliseconds: UInt64) -> Bool {
    guard let dueMilliseconds, dueMilliseconds <= nowMilliseconds else { return false }
    self.dueMilliseconds = nil
    return true
  }

  /// The service gave none, or it could not be kept.
  package mutating func refused(retrySeconds: UInt32?, nowMilliseconds: UInt64) {
    let wanted = UInt64(retrySeconds ?? 3600) * 1000
    dueMilliseconds =
      nowMilliseconds
      + min(max(wanted, Self.leastRetryMilliseconds), Self.mostRetryMilliseconds)
  }

  /// The service needs time to decide: to be asked again after it says so.
  package mutating func pending(retrySeconds: UInt32?, nowMilliseconds: UInt64) {
    let wanted = UInt64(max(retrySeconds ?? 60, 1)) * 1000
    dueMilliseconds = nowMilliseconds + min(wanted, Self.mostRetryMilliseconds)
  }
}
