import ApusCore
import ApusDirectory
import ApusLoop

// When what a connection was trusted for ends: by a change of trust, by the certificate's own end, or because the clock
// jumped over that.

extension Worker {
  /// The time by which certificates are judged, in Unix seconds: that of handshakes, also where a rehearsal sets the
  /// service's clock.
  var certificateSeconds: Int64 { loop.wallMilliseconds / 1000 }

  /// The second of the worker's clock that follows on `wallSeconds`, Unix seconds, as long as no clock is set.
  func secondAfter(_ wallSeconds: Int64) -> UInt64 {
    let (left, overflow) = wallSeconds.subtractingReportingOverflow(certificateSeconds)
    if overflow || left > Int64(UInt32.max) { return .max }
    return nowSeconds + UInt64(max(0, left + 1))
  }

  /// Ends the connections that `previous` trusted, and the trust in force does not.
  ///
  /// Every provider is asked, since each may be affected by a change to its key, team or topics. A device depends on
  /// its certificate alone, so the many dormant ones are only looked at where certificates or authorities were taken
  /// back.
  func judgeConnections(since previous: Trust) {
    let hasLostAuthority = !trust.deviceAuthorities.contain(previous.deviceAuthorities.marks)
    for connection in connections { connection?.trustChanged(hasLostAuthority: hasLostAuthority) }
    if hasLostAuthority || trust.directory.revokesMore(than: previous.directory) {
      judgeDormant(hasLostAuthority: hasLostAuthority)
    }
  }

  /// Certificates expire by the wall clock, and deadlines go by one that nobody sets. Where the two part, everybody is
  /// judged anew. Called each second.
  func watchClock() {
    let offset = loop.wallMilliseconds &- Int64(loop.nowMilliseconds)
    defer { clockOffsetMilliseconds = offset }
    guard let last = clockOffsetMilliseconds, abs(offset &- last) > Self.jumpMilliseconds else {
      return
    }
    for connection in connections { connection?.trustChanged(hasLostAuthority: false) }
    judgeDormant(hasLostAuthority: false)
  }

  /// What NTP slews in a second is less than a thousandth of that.
  private static let jumpMilliseconds: Int64 = 1000
}
