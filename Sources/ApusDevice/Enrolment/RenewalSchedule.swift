package import ApusTrust

/// The identity whose certificate is renewed, and how.
package struct RenewalPlan: Sendable {
  package var certificate: Certificate
  package var key: PrivateKey
  /// Whether each new certificate gets a new key.
  package var makesNewKey: Bool

  package init(certificate: Certificate, key: PrivateKey, makesNewKey: Bool) {
    self.certificate = certificate
    self.key = key
    self.makesNewKey = makesNewKey
  }

  /// Nil if renewal is off, or the identity cannot be read.
  package init?(_ identity: DeviceIdentity, _ renewal: DeviceRenewal) {
    guard renewal != .never, let certificate = try? Certificate(pem: identity.certificatePEM),
      let key = try? PrivateKey(pem: identity.keyPEM)
    else { return nil }
    self.init(certificate: certificate, key: key, makesNewKey: renewal == .newKey)
  }
}

/// When a device requests its next certificate.
///
/// The service issues one in the last third of the old one's life. To spread the load of devices enrolled together,
/// each picks its own moment in the first half of that third. The service's clock counts, since it sends its time on
/// each connection; the device's clock may be wrong.
package struct RenewalSchedule: Sendable, Hashable {
  /// Unix milliseconds from which the device asks.
  package private(set) var dueUnixMilliseconds: Int64
  /// The same on the device's monotonic clock; nil without a connection, and while a request is open.
  package private(set) var dueMilliseconds: UInt64?

  /// Minimum milliseconds until the service is asked again, if it gives no time or a very short one.
  package static let leastRetryMilliseconds: UInt64 = 60_000
  /// The maximum, for a service that says never; a new connection asks again anyway.
  package static let mostRetryMilliseconds: UInt64 = 86_400_000

  /// - Parameters:
  ///   - notBefore: Of the certificate, in Unix seconds.
  ///   - notAfter: Likewise.
  ///   - spread: The position in the first half of the last third, in thousandths.
  package init(notBefore: Int64, notAfter: Int64, spread: Int64) {
    let life = max(0, notAfter - notBefore)
    dueUnixMilliseconds = (notAfter - life / 3) * 1000 + life / 6 * min(max(spread, 0), 1000)
  }

  package mutating func connected(serverMilliseconds: UInt64, nowMilliseconds: UInt64) {
    let wait = dueUnixMilliseconds - Int64(clamping: serverMilliseconds)
    dueMilliseconds = nowMilliseconds + UInt64(max(0, wait))
  }

  /// The service wants a request within `withinSeconds`: the device picks its own moment in that time (`spread` in
  /// thousandths), within a day at most. No effect if a request is open or due sooner.
  package mutating func advised(
    withinSeconds: UInt32, spread: Int64, nowMilliseconds: UInt64
  ) {
    guard let due = dueMilliseconds else { return }
    let window = min(UInt64(withinSeconds) * 1000, Self.mostRetryMilliseconds)
    dueMilliseconds = min(
      due, nowMilliseconds + window / 1000 * UInt64(min(max(spread, 0), 1000)))
  }

  package mutating func disconnected() { dueMilliseconds = nil }

  /// Whether to ask now. If true, it stays false until `refused` or the next connection.
  package mutating func takeDue(nowMilliseconds: UInt64) -> Bool {
    guard let dueMilliseconds, dueMilliseconds <= nowMilliseconds else { return false }
    self.dueMilliseconds = nil
    return true
  }

  /// The service issued none, or the new one could not be stored.
  package mutating func refused(retrySeconds: UInt32?, nowMilliseconds: UInt64) {
    let wanted = UInt64(retrySeconds ?? 3600) * 1000
    dueMilliseconds =
      nowMilliseconds
      + min(max(wanted, Self.leastRetryMilliseconds), Self.mostRetryMilliseconds)
  }

  /// The service needs time to decide, and gave a time for the next request.
  package mutating func pending(retrySeconds: UInt32?, nowMilliseconds: UInt64) {
    let wanted = UInt64(max(retrySeconds ?? 60, 1)) * 1000
    dueMilliseconds = nowMilliseconds + min(wanted, Self.mostRetryMilliseconds)
  }
}
