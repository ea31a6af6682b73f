import ApusCore
import ApusDirectory
import ApusLoop

// Ends connections that are no longer trusted: because the trust changed, the certificate expired, or the clock jumped
// past its expiry.

extension Worker {
  /// The time for judging certificates, in Unix seconds. Handshakes use it too. The development service's clock does
  /// not affect it.
  var certificateSeconds: Int64 { loop.wallMilliseconds / 1000 }

  /// The second of the worker's clock just after `wallSeconds` (Unix seconds), provided that no clock is set.
  func secondAfter(_ wallSeconds: Int64) -> UInt64 {
    let (left, overflow) = wallSeconds.subtractingReportingOverflow(certificateSeconds)
    if overflow || left > Int64(UInt32.max) { return .max }
    return nowSeconds + UInt64(max(0, left + 1))
  }

  /// Ends the connections that `previous` trusted and the current trust does not.
  ///
  /// Checks every provider, because a change to its key, team or topics may affect it. A device depends on its
  /// certificate only, so the many dormant ones are checked only if certificates were revoked or authorities removed.
  func judgeConnections(since previous: Trust) {
    let hasLostAuthority = !trust.deviceAuthorities.contain(previous.deviceAuthorities.marks)
    for connection in connections { connection?.trustChanged(hasLostAuthority: hasLostAuthority) }
    if hasLostAuthority || trust.directory.revokesMore(than: previous.directory) {
      judgeDormant(hasLostAuthority: hasLostAuthority)
    }
  }

  /// Checks all connections again if the wall clock jumped: certificates expire by the wall clock, but deadlines use a
  /// clock that cannot be set. Called each second.
  func watchClock() {
    let offset = loop.wallMilliseconds &- Int64(loop.nowMilliseconds)
    defer { clockOffsetMilliseconds = offset }
    guard let last = clockOffsetMilliseconds, abs(offset &- last) > Self.jumpMilliseconds else {
      return
    }
    for connection in connections { connection?.trustChanged(hasLostAuthority: false) }
    judgeDormant(hasLostAuthority: false)
  }

  /// NTP slews the clock by less than a thousandth of that per second.
  private static let jumpMilliseconds: Int64 = 1000
}
